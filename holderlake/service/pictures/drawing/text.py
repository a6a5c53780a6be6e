"""Text that is safe to draw: only what the fonts can show, measured, and shortened or broken to the room there is.

Names and labels come from strangers. Controls, marks that change direction or pile up, and symbols that the fonts
lack are left out; a letter that they lack becomes a box.
"""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

import matplotlib
from matplotlib.font_manager import FontProperties, get_font
from matplotlib.ft2font import LoadFlags

_FONTS: Final = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
_FILES: Final = {False: str(_FONTS / "DejaVuSans.ttf"), True: str(_FONTS / "DejaVuSans-Bold.ttf")}
FONTS: Final = {bold: FontProperties(fname=file) for bold, file in _FILES.items()}
"""The fonts that come with matplotlib, by file, so that a picture does not hang on what else a machine has."""

_MEASURED_AT: Final = 64.0
_LONGEST: Final = 200
"""Characters of a text that are looked at; nothing longer could be drawn."""
_BOX: Final = "□"


@cache
def _drawable() -> frozenset[str]:
    regular, bold = (set(get_font(file).get_charmap()) for file in _FILES.values())
    return frozenset(map(chr, regular & bold))


def printable(text: str) -> str:
    """The text on one line, as far as the fonts can show it; nothing is left of one that they can't show at all."""
    plain = unicodedata.normalize("NFKC", text[:_LONGEST])[:_LONGEST]
    return " ".join("".join(_shown(character) for character in plain).split())


def _shown(character: str) -> str:
    if character.isspace():
        return " "
    kind = unicodedata.category(character)
    if kind[0] in "CM":
        return ""
    if character in _drawable():
        return character
    return _BOX if kind[0] in "LN" else ""


@lru_cache(maxsize=4096)
def width(text: str, size: float, bold: bool = False) -> float:
    """Pixels that a printable text of ``size`` pixels takes."""
    font = get_font(_FILES[bold])
    font.set_size(_MEASURED_AT, 72)
    font.set_text(text, 0.0, flags=LoadFlags.NO_HINTING)
    return float(font.get_width_height()[0]) / 64 / _MEASURED_AT * size


def shortened(text: str, room: float, size: float, bold: bool = False) -> str:
    """The text, or its beginning and an ellipsis, no wider than ``room`` pixels; empty where not even that fits."""
    if width(text, size, bold) <= room:
        return text
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if width(text[:middle].rstrip() + "…", size, bold) <= room:
            fits = middle
        else:
            too_long = middle
    return text[:fits].rstrip() + "…" if fits else ""


def broken(text: str, room: float, size: float, lines: int = 99) -> list[str]:
    """The text in at most so many lines of at most ``room`` pixels; what does not fit ends in an ellipsis."""
    words, found = text.split(), [""]
    while words:
        longer = f"{found[-1]} {words[0]}".strip()
        if not found[-1] or width(longer, size) <= room:
            found[-1] = longer
            words.pop(0)
        elif len(found) < lines:
            found.append("")
        else:
            found[-1] = " ".join([found[-1], *words])
            words = []
    return [shortened(line, room, size) for line in found]


def short_address(address: str) -> str:
    """``0x1234…abcd``; an address that is short anyway stays whole."""
    return address if len(address) < 14 else f"{address[:6]}…{address[-4:]}"
