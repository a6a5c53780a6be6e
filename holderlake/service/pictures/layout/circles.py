"""Circles that push each other apart, and the frame they stand in: plain arrays of centres and radii, in pixels.

No library that is kept here does this: networkx places points, which have no size, and none packs circles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
Pairs = tuple[Places, Places]


@dataclass(frozen=True)
class Frame:
    """A rectangle, in pixels from the picture's top left."""

    left: float
    top: float
    width: float
    height: float

    @property
    def origin(self) -> Floats:
        """The top left."""
        return np.array([self.left, self.top])

    @property
    def size(self) -> Floats:
        """Width and height."""
        return np.array([self.width, self.height])

    def inset(self, by: float) -> Frame:
        """The frame without a margin of so many pixels; a negative one makes it larger."""
        return Frame(self.left + by, self.top + by, self.width - 2 * by, self.height - 2 * by)


def bounds(at: Floats, radius: Floats) -> tuple[Floats, Floats]:
    """The top left and the bottom right of what circles cover."""
    return (at - radius[:, None]).min(axis=0), (at + radius[:, None]).max(axis=0)


def near(at: Floats, radius: Floats, reach: float, movable: int | None = None) -> Pairs:
    """The pairs of circles with less than ``reach`` between them, by number, the smaller number first.

    Where only the first so many are movable, pairs of others are left out.
    """
    some = slice(movable)
    across, down = at[some, :1] - at[:, 0], at[some, 1:] - at[:, 1]
    first, second = np.nonzero(across * across + down * down < (radius[some, None] + radius + reach) ** 2)
    once = first < second
    return first[once], second[once]


def pushed(at: Floats, radius: Floats, weight: Floats, gap: float, pairs: Pairs) -> tuple[Floats, float]:
    """The centres after one step apart of those pairs that are nearer than ``gap``, and the most that a pair lacked.

    Of two circles the heavier one moves less.
    """
    first, second = pairs
    way = at[first] - at[second]
    distance = np.hypot(way[:, 0], way[:, 1])
    lack = radius[first] + radius[second] + gap - distance
    touch = lack > 0
    if not touch.any():
        return at, 0.0
    first, second, way, distance, lack = first[touch], second[touch], way[touch], distance[touch], lack[touch]
    way[distance < 1e-6] = (1e-6, 0.0)
    way *= (0.7 * lack / np.maximum(distance, 1e-6))[:, None]
    part = (weight[second] / (weight[first] + weight[second]))[:, None]
    return at + summed(first, way * part, len(at)) - summed(second, way * (1 - part), len(at)), float(lack.max())


def summed(place: Places, moves: Floats, count: int) -> Floats:
    """The moves added up for each of ``count`` places."""
    return np.column_stack([np.bincount(place, moves[:, axis], count) for axis in (0, 1)])
