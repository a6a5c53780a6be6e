"""The colours of pictures in the light and the dark theme, and the palette of clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Theme(StrEnum):
    """The background for which a picture is drawn."""

    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True)
class Colours:
    """Colours of one theme as #rrggbb.

    ``page`` is the background of the picture and ``panel`` that of the map. ``ink`` and ``soft`` are text. ``track`` is
    the empty part of a bar and ``bar`` the full one. ``alone`` fills bubbles outside clusters. ``halo`` is the strength
    of a cluster's tint, 0 to 1.
    """

    page: str
    panel: str
    ink: str
    soft: str
    track: str
    bar: str
    alone: str
    halo: float

    def of_cluster(self, number: int | None) -> str:
        """Return the colour of a cluster by its number (1 is the largest). None is for nodes outside clusters."""
        return self.alone if number is None else PALETTE[(number - 1) % len(PALETTE)]


PALETTE: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999933", "#8c564b")
"""Colours of clusters and of lines in plots, here, on the explorer's page and in reports.

The first six are Okabe and Ito's, which colour-blind readers can distinguish. A cluster's number is always shown too.
"""
COLOURS: Final[Mapping[Theme, Colours]] = MappingProxyType(
    {
        Theme.LIGHT: Colours(
            page="#ffffff",
            panel="#f4f5f6",
            ink="#1c2127",
            soft="#56606b",
            track="#e6e8ea",
            bar="#56606b",
            alone="#c3cad1",
            halo=0.16,
        ),
        Theme.DARK: Colours(
            page="#0f1215",
            panel="#171b20",
            ink="#e8eaed",
            soft="#a3adb8",
            track="#2a3037",
            bar="#a3adb8",
            alone="#4a545f",
            halo=0.24,
        ),
    }
)
"""The same colours as in ``web/src/colours.ts``."""

_BLACK: Final = "#10141a"
_WHITE: Final = "#ffffff"


def mixed(colour: str, tint: str, part: float) -> str:
    """Return ``colour`` with a ``part`` (0 to 1) of the colour ``tint`` mixed in."""
    pairs = zip(_channels(colour), _channels(tint), strict=True)
    return "#" + "".join(f"{round(255 * (level * (1 - part) + tint_level * part)):02x}" for level, tint_level in pairs)


def contrast(colour_a: str, colour_b: str) -> float:
    """Return the contrast ratio of two colours by WCAG 2, from 1 to 21. Text needs 4.5."""
    low, high = sorted((_luminance(colour_a), _luminance(colour_b)))
    return (high + 0.05) / (low + 0.05)


def text_on(fill: str) -> str:
    """Return the text colour, black or white, that has more contrast to the colour ``fill``."""
    return max(_WHITE, _BLACK, key=lambda ink: contrast(ink, fill))


def _channels(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def _luminance(colour: str) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in _channels(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
