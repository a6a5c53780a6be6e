"""How a report writes numbers, instants and names; None is a dash."""

from __future__ import annotations

from datetime import datetime
from decimal import ROUND_DOWN, Context, Decimal
from typing import Final

_NOTHING: Final = "\u2013"
_EXACT: Final = Context(prec=120)


def percent(share: float | None) -> str:
    """A share of the supply (0 to 1)."""
    if share is None:
        return _NOTHING
    parts = 100 * share
    return f"{parts:.2f}\u00a0%" if parts >= 0.005 or parts == 0 else "<\u00a00.01\u00a0%"


def points(share: float | None) -> str:
    """A change of a share, in percentage points, with its sign."""
    return _NOTHING if share is None else f"{100 * share:+.2f}".replace("-", "\u2212")


def number(value: float | None, digits: int = 2) -> str:
    """A number; whole ones have no digits after the point."""
    if value is None:
        return _NOTHING
    return f"{value:,d}" if isinstance(value, int) else f"{value:,.{digits}f}".replace("-", "\u2212")


def amount(text: str | None) -> str:
    """An exact amount to read: six places where it is small, else two; never rounded up."""
    if text is None:
        return _NOTHING
    value = Decimal(text)
    places = Decimal("0.000001") if abs(value) < 1 else Decimal("0.01")
    shown = f"{value.quantize(places, rounding=ROUND_DOWN, context=_EXACT):,f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def instant(when: datetime | None) -> str:
    """An instant to the minute, UTC."""
    return _NOTHING if when is None else f"{when:%Y-%m-%d %H:%M}"


def short(address: str | None) -> str:
    """An address in few letters."""
    if address is None:
        return _NOTHING
    return address if len(address) < 14 else f"{address[:8]}…{address[-6:]}"
