"""Names, shares, counts and instants as a picture says them. English, whatever the machine's locale is."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from holderlake.service.pictures.drawing.text import printable, short_address
from holderlake.service.pictures.scene import Node

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_RAISED: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(share: float, finest: float = 0.0) -> str:
    """A share (0 to 1) as a percentage, with as many digits as a small one needs.

    Shares below ``finest`` are only said to be below it.
    """
    parts = 100 * share
    if 0 < share < finest:
        return f"<{100 * finest:g}%"
    if parts == 0 or parts >= 99.95:
        return f"{parts:.0f}%"
    if parts >= 0.095:
        return f"{parts:.1f}%"
    digit, power = f"{parts:.0e}".split("e")
    if int(power) >= -5:
        return f"{parts:.{-int(power)}f}%"
    return f"{digit}\u00d710{str(int(power)).translate(_RAISED)}%"


def count(number: int, thing: str) -> str:
    """``1 holder``, ``2 holders``."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def instant(when: datetime) -> str:
    """An instant (UTC, without zone) to the minute."""
    return f"{when.day} {_MONTHS[when.month - 1]} {when.year}, {when:%H:%M} UTC"


def called(node: Node) -> str:
    """The name that a holder goes by, printable: its label, or its address in short."""
    return printable(node.label or "") or short_address(printable(node.address))
