"""Draw the header above the map: token, instant, number of drawn holders, and key figures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from holderlake.core.contract.chains import KNOWN_CHAINS
from holderlake.core.units import counted
from holderlake.presentation.pictures.drawing.sheet import Sheet
from holderlake.presentation.pictures.drawing.text import instant, percent, printable, shortened, width
from holderlake.presentation.pictures.scene import Scene

FINEST: Final = 0.0001
"""Smallest share (0 to 1) that is written as a number. A smaller one is written as ``<0.01%``."""


@dataclass(frozen=True)
class TokenTitle:
    """Content of a picture's title: name and symbol of the token, the id of its chain, and the instant of the map.

    The instant (``as_of``) is in UTC, without zone.
    """

    name: str
    symbol: str
    chain: str
    as_of: datetime

    @property
    def shown_name(self) -> str:
        """Printable part of the token's name, or else of its symbol."""
        return printable(self.name) or printable(self.symbol) or "Unnamed token"


def draw_title(sheet: Sheet, token: TokenTitle) -> None:
    """Draw the title: name and symbol, chain and instant, and the number and share of the drawn holders."""
    area, unit, colours = sheet.page.title, sheet.unit, sheet.colours
    size, lesser = 2.1 * unit, 1.5 * unit
    symbol = "" if token.symbol == token.name else shortened(printable(token.symbol), 0.4 * area.width, lesser)
    symbol_room = width(symbol, lesser) + 0.6 * unit if symbol else 0.0
    name = shortened(token.shown_name, area.width - symbol_room, size, bold=True)
    base = area.top + 1.75 * unit
    sheet.canvas.text((area.left, base), name, size, colours.ink, bold=True)
    symbol_left = area.left + width(name, size, bold=True) + 0.6 * unit
    sheet.canvas.text((symbol_left, base), symbol, lesser, colours.soft)
    known_chain = KNOWN_CHAINS.get(token.chain)
    chain = shortened(printable(known_chain.name if known_chain else token.chain), 0.4 * area.width, unit)
    subtitle = " · ".join(filter(None, (chain, instant(token.as_of))))
    sheet.soft((area.left, base + 1.85 * unit), subtitle, area.width)
    sheet.soft((area.left, base + 3.4 * unit), _drawn_summary(sheet.scene), area.width)


def draw_figures(sheet: Sheet) -> None:
    """Draw the score and three shares of supply, each with a bar."""
    area, figures, between = sheet.page.figures, sheet.scene.figures, 1.6 * sheet.unit
    step = (area.width + between) / 4
    score = figures.score
    value = None if score is None else f"{score:.0f}"
    _figure(sheet, area.left, step - between, ("Decentralisation", value, "/ 100"), (score or 0) / 100)
    shares = (
        ("Top 10 groups", figures.top_10),
        ("In exchanges", figures.exchanges),
        ("In contracts", figures.contracts),
    )
    for number, (caption, share) in enumerate(shares, start=1):
        value = None if share is None else percent(share, FINEST)
        _figure(sheet, area.left + number * step, step - between, (caption, value, ""), share or 0)


def _figure(sheet: Sheet, left: float, wide: float, texts: tuple[str, str | None, str], part: float) -> None:
    """Draw one key figure: caption, large value, unit, and a bar that is filled to ``part`` (0 to 1).

    ``texts`` has caption, value and unit. The value is None if the figure does not apply.
    """
    caption, value, suffix = texts
    top, unit, colours = sheet.page.figures.top, sheet.unit, sheet.colours
    sheet.soft((left, top + 0.8 * unit), caption, wide, 0.88)
    base = top + 2.85 * unit
    if value is None:
        sheet.soft((left, base - 0.1 * unit), "not applicable", wide, 0.95)
    else:
        sheet.canvas.text((left, base), value, 1.75 * unit, colours.ink, bold=True)
        right = left + width(value, 1.75 * unit, bold=True) + 0.35 * unit
        sheet.canvas.text((right, base), suffix, 0.95 * unit, colours.soft)
    sheet.bar(left, top + 3.5 * unit, wide, part)


def _drawn_summary(scene: Scene) -> str:
    """Return a line such as ``60 of the 80 largest holders drawn, with 45% of supply``."""
    shares = [node.share for node in scene.nodes if node.share is not None]
    if not shares:
        return f"None of {counted(scene.listed, 'holder')} drawn"
    all_drawn = len(shares) == scene.listed
    holders = counted(len(shares), "holder") if all_drawn else f"{len(shares)} of the {scene.listed} largest holders"
    return f"{holders} drawn, with {percent(min(1.0, sum(shares)))} of supply"
