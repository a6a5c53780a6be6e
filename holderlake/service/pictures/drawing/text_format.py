"""Format names, shares, counts and instants for pictures, in English on every machine."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from holderlake.service.pictures.drawing.text import printable, short_address
from holderlake.service.pictures.scene import Node
from holderlake.units import percentage

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_RAISED: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(share: float, finest: float = 0.0) -> str:
    """Return a share (0 to 1) as a percentage, with more digits for small ones.

    A share below ``finest`` is written as ``<`` and the percentage of ``finest``.
    """
    parts = 100 * share
    if 0 < share < finest:
        return f"<{100 * finest:g}%"
    if parts >= 0.095 or parts == 0:
        text = percentage(share, 1)
        return f"{float(text):.0f}%" if float(text) in (0, 100) else f"{text}%"
    digit, power = f"{parts:.0e}".split("e")
    if int(power) >= -5:
        return f"{parts:.{-int(power)}f}%"
    return f"{digit}\u00d710{str(int(power)).translate(_RAISED)}%"


def instant(when: datetime) -> str:
    """Return an instant (UTC, without zone) to the minute."""
    return f"{when.day} {_MONTHS[when.month - 1]} {when.year}, {when:%H:%M} UTC"


def display_name(node: Node) -> str:
    """Return a holder's printable label, or its short address if it has none."""
    return printable(node.label or "") or short_address(printable(node.address))
