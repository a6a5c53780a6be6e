"""The colours of pictures in the light and the dark theme.

The hues of clusters are those of Okabe and Ito, which colour-blind readers can distinguish. The dark theme has lighter
blues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
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
    the empty part of a bar and ``bar`` the full one. ``alone`` fills bubbles outside clusters. ``clusters`` has the
    colours of the largest clusters, ``other_clusters`` fills bubbles of all other clusters. ``halo`` is the strength of
    a cluster's tint, 0 to 1.
    """

    page: str
    panel: str
    ink: str
    soft: str
    track: str
    bar: str
    alone: str
    other_clusters: str
    clusters: tuple[str, ...]
    halo: float

    def of_cluster(self, number: int | None) -> str:
        """Return the colour of a cluster by its number (1 is the largest). None is for nodes outside clusters."""
        if number is None:
            return self.alone
        return self.clusters[number - 1] if number <= len(self.clusters) else self.other_clusters


COLOURS: Final[Mapping[Theme, Colours]] = MappingProxyType(
    {
        Theme.LIGHT: Colours(
            page="#ffffff",
            panel="#f4f6f9",
            ink="#171c24",
            soft="#545e6d",
            track="#e1e6ed",
            bar="#3f4b5c",
            alone="#c5ccd7",
            other_clusters="#7b8798",
            clusters=("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"),
            halo=0.16,
        ),
        Theme.DARK: Colours(
            page="#0c1016",
            panel="#141a23",
            ink="#eef2f7",
            soft="#a7b1c0",
            track="#29323f",
            bar="#c3cbd7",
            alone="#515d70",
            other_clusters="#8f9bad",
            clusters=("#1874b6", "#e69f00", "#009e73", "#cc79a7", "#6fc3f2", "#d9661a"),
            halo=0.24,
        ),
    }
)

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


@cache
def quiet_on(fill: str) -> str:
    """Return the text colour with the least contrast to the colour ``fill`` that is still readable."""
    ink = text_on(fill)
    parts = (part / 20 for part in range(10, 0, -1))
    return next((quiet for part in parts if contrast(quiet := mixed(ink, fill, part), fill) >= 5), ink)


def _channels(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def _luminance(colour: str) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in _channels(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
