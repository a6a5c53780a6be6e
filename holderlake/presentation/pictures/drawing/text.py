"""Make text safe to draw, measure its width, shorten or break it to fit, and write instants as text.

Names and labels are untrusted. Control characters, direction marks, combining marks and symbols that the fonts lack are
dropped. A letter that the fonts lack becomes a box.
"""

from __future__ import annotations

import unicodedata
from datetime import datetime
from datetime import time as dt_time
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

import matplotlib
from matplotlib.font_manager import FontProperties, get_font
from matplotlib.ft2font import LoadFlags

from holderlake.presentation.evidence import day
from holderlake.presentation.pictures.scene import Node

_FONTS: Final = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
_FILES: Final = {False: str(_FONTS / "DejaVuSans.ttf"), True: str(_FONTS / "DejaVuSans-Bold.ttf")}
FONTS: Final = {bold: FontProperties(fname=file) for bold, file in _FILES.items()}
"""matplotlib's own fonts, so that pictures do not depend on the fonts of the machine. The key True is the bold font."""

_MEASURED_AT: Final = 64.0
_TEXT_CHARACTERS: Final = 200
"""Maximum characters of a text that are drawn. The others are cut off."""
_BOX: Final = "□"


@cache
def _drawable() -> frozenset[str]:
    regular, bold = (set(get_font(file).get_charmap()) for file in _FILES.values())
    return frozenset(map(chr, regular & bold))


def printable(text: str, most: int = _TEXT_CHARACTERS) -> str:
    """Return the text on one line, without characters that the fonts cannot show. The result may be empty.

    Only the first ``most`` characters are read.
    """
    plain = unicodedata.normalize("NFKC", text[:most])[:most]
    return " ".join("".join(_printable_character(character) for character in plain).split())


def _printable_character(character: str) -> str:
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
    """Return the width in pixels of a printable text. ``size`` is the size of the font in pixels."""
    font = get_font(_FILES[bold])
    font.set_size(_MEASURED_AT, 72)
    font.set_text(text, 0.0, flags=LoadFlags.NO_HINTING)
    return float(font.get_width_height()[0]) / 64 / _MEASURED_AT * size


def shortened(text: str, room: float, size: float, bold: bool = False) -> str:
    """Return the text, cut with an ellipsis if it is wider than ``room`` pixels; empty if nothing fits."""
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


def broken(text: str, room: float, size: float, lines: int = 99, bold: bool = False) -> list[str]:
    """Break the text into at most ``lines`` lines of at most ``room`` pixels. The last one is cut with an ellipsis."""
    words, text_lines = text.split(), [""]
    while words:
        longer = f"{text_lines[-1]} {words[0]}".strip()
        if not text_lines[-1] or width(longer, size, bold) <= room:
            text_lines[-1] = longer
            words.pop(0)
        elif len(text_lines) < lines:
            text_lines.append("")
        else:
            text_lines[-1] = " ".join([text_lines[-1], *words])
            words = []
    return [shortened(line, room, size, bold) for line in text_lines]


def short_address(address: str) -> str:
    """Return ``0x1234…abcd``; a short address stays complete."""
    return address if len(address) < 14 else f"{address[:6]}…{address[-4:]}"


def instant(when: datetime) -> str:
    """Return an instant (UTC, without zone) as the explorer writes it: without the time at midnight."""
    time = f"{when:, %H:%M:%S}".removesuffix(":00") if when.time() != dt_time() else ""
    return f"{day(when)}{time} UTC"


def display_name(node: Node) -> str:
    """Return a holder's printable label, or its short address if it has none."""
    return printable(node.label or "") or short_address(printable(node.address))
