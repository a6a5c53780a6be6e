"""Packing of circles round a point without overlaps. Positions are complex numbers x + iy in pixels."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Points = NDArray[np.complex128]
Indices = NDArray[np.intp]

_STEPS: Final = 60
_PUSHES: Final = 5
"""Pushes in each step."""
_SEARCH_EVERY: Final = 6
"""Steps between two searches for near circles."""
_FILLED: Final = 0.85
"""Part of their area (0 to 1) that packed circles and the gaps around them fill at best."""


def packed(targets: Points, radius: Floats, group: Indices, gap: float, aspect: float) -> Points:
    """Return positions near ``targets`` and round 0. Circles are at least half a ``gap`` apart, mostly a whole one.

    ``targets``, ``radius`` and ``group`` have the shape (circles,). Circles fall towards 0 and, in a ``group``, towards
    each other, and push each other apart, small ones more than large ones, as in the explorer. ``aspect`` is width
    divided by height of the packed area.
    """
    at, weight = targets, (radius + gap) ** 2
    reach = math.sqrt(float(weight.sum()) / _FILLED)
    wide, high = reach * math.sqrt(aspect), reach / math.sqrt(aspect)
    weights = np.bincount(group, weight)
    for step in range(_STEPS):
        heat = 1 - step / _STEPS
        at = at + (targets - at) * 0.3 * heat**2
        across, down = at.real / wide, at.imag / high
        distance = np.maximum((across**4 + down**4) ** 0.25, 1e-9)  # its level lines are nearly rectangles
        fall = 0.04 * heat * np.minimum(1, 2 * distance)
        at = at - fall * (wide * (across / distance) ** 3 + 1j * high * (down / distance) ** 3)
        middle = (_summed(group, weight * at, len(weights)) / weights)[group]
        at = at + (middle - at) * 0.3 * heat
        if step % _SEARCH_EVERY == 0:
            near = _near(at, radius, gap)
        for _ in range(_PUSHES):
            at, _lack = _pushed(at, radius, weight, gap, near)
    while True:
        near = _near(at, radius, gap)
        for _ in range(_SEARCH_EVERY):
            at, lack = _pushed(at, radius, weight, gap, near)
        if lack <= gap / 2:
            return at
        at = at * 1.01


def _near(at: Points, radius: Floats, gap: float) -> tuple[Indices, Indices]:
    """Return the pairs of circles that may touch within the next steps, as two arrays of indices."""
    apart = np.abs(at[:, None] - at) - radius[:, None] - radius
    first, second = np.nonzero(np.triu(apart < 6 * gap + 0.1 * (radius[:, None] + radius), 1))
    return first, second


def _pushed(
    at: Points, radius: Floats, weight: Floats, gap: float, near: tuple[Indices, Indices]
) -> tuple[Points, float]:
    """Return positions after one push between near circles, and by how many pixels two of them were too close."""
    first, second = near
    way = at[first] - at[second]
    way = np.where(np.abs(way) < 1e-6, 1e-3 * np.exp(1j * first), way)  # in the same place: any direction will do
    lack = np.maximum(radius[first] + radius[second] + gap - np.abs(way), 0.0)
    push = way * (0.6 * lack / np.abs(way)) / (weight[first] + weight[second])
    moves = _summed(first, push * weight[second], len(at)) - _summed(second, push * weight[first], len(at))
    return at + moves, float(lack.max(initial=0.0))


def _summed(index: Indices, moves: Points, count: int) -> Points:
    sums: Points = np.bincount(index, moves.real, count) + 1j * np.bincount(index, moves.imag, count)
    return sums
