"""A simulation that moves circles until none overlap: lines pull linked circles together, near circles push apart.

networkx's layouts ignore the sizes of nodes. Positions, and the moves of one step, are complex numbers x + iy in
pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Points = NDArray[np.complex128]
Indices = NDArray[np.intp]

_COOLING_STEPS: Final = 200
_MOST_STEPS: Final = 500
_SEARCH_EVERY: Final = 10
"""Steps between two searches for near circles and lines."""


@dataclass
class Simulation:
    """Circles, and lines between them, within a frame from 0 to ``corner``.

    ``at`` (centres), ``radius`` and ``component`` have the shape (circles,). ``ends`` are the two circles of each line,
    by index, in two arrays of shape (lines,). A component is a set of circles that lines connect; ``component`` has its
    number for each circle. If two circles of one component are too close, only these two move. If two circles of
    different components are too close, both components move as a unit. ``gap`` is the distance to keep between circles.
    """

    at: Points
    radius: Floats
    component: Indices
    ends: tuple[Indices, Indices]
    gap: float
    corner: complex
    _heat: float = 1.0
    """Factor of the lines' pull and of the extra distance between components. It falls from 1 to 0 during the run."""
    _near: tuple[Indices, Indices] = field(init=False)
    _crossings: tuple[Indices, Indices] = field(init=False)
    """Pairs of a circle and a line of another component that are close enough to touch soon, as two index arrays."""

    def __post_init__(self) -> None:
        circle_a, circle_b = self.ends
        self._weight = (self.radius + self.gap) ** 2
        self._weights = np.bincount(self.component, self._weight)
        self._members = np.bincount(self.component)
        self._length = self.radius[circle_a] + self.radius[circle_b] + 3.5 * self.gap
        degree = np.bincount(np.concatenate(self.ends), minlength=len(self.at))
        self._first_part = degree[circle_b] / (degree[circle_a] + degree[circle_b])
        # a leaf comes close to its only neighbour, while a web of many lines keeps its shape
        self._stiffness = 0.5 / np.minimum(degree[circle_a], degree[circle_b]) ** 2
        circle, line = np.nonzero(self.component[:, None] != self.component[circle_a])
        self._foreign_lines = circle, line
        free = self.corner.real * self.corner.imag - np.pi * float(self._weight.sum())
        self._spread = max(3 * self.gap, 0.5 * math.sqrt(max(0.0, free / len(self.at))))

    def run(self) -> Points:
        """Run steps until the components are in place and no circles overlap, at most ``_MOST_STEPS``.

        Return the centres.
        """
        for step in range(_MOST_STEPS):
            self._heat = max(0.0, 1 - step / _COOLING_STEPS)
            if step % _SEARCH_EVERY == 0:
                self._search()
            moves = self._pulls()
            rigid, lack = self._push_circles(moves)
            self._push_off_lines(rigid)
            moves += rigid[self.component]
            self.at = self.at + moves * np.minimum(1.0, 4 * self.gap / np.maximum(np.abs(moves), 1e-9))
            if self._heat:
                self._contract()
            elif lack < 0.3 * self.gap:
                break
            elif step % _SEARCH_EVERY == 0:
                self.at = self.at + 0.02 * (self.at - self.corner / 2)
        return self.at

    def _search(self) -> None:
        """Find the pairs of circles, and the pairs of a circle and a line, that can touch before the next search."""
        reach = self.radius[:, None] + self.radius + 1.5 * self._preferred_gap + 3 * self.gap
        circle_a, circle_b = np.nonzero(np.triu(np.abs(self.at[:, None] - self.at) < reach, 1))
        self._near = circle_a, circle_b
        circle, line = self._foreign_lines
        close = np.abs(self._way_off(circle, line)) < self.radius[circle] + 6 * self.gap
        self._crossings = circle[close], line[close]

    @property
    def _preferred_gap(self) -> float:
        """Distance in pixels that circles of different components should have at this step."""
        return self.gap + self._spread * self._heat

    def _pulls(self) -> Points:
        """Return the move of each circle by which its lines come nearer to their preferred length."""
        circle_a, circle_b = self.ends
        way = self.at[circle_b] - self.at[circle_a]
        distance = np.maximum(np.abs(way), 1e-9)
        move = way * (self._heat * self._stiffness * (distance - self._length) / distance)
        return self._summed(circle_a, move * self._first_part) - self._summed(circle_b, move * (1 - self._first_part))

    def _push_circles(self, moves: Points) -> tuple[Points, float]:
        """Compute the moves that push near circles apart. A component is a set of circles that lines connect.

        If both circles of a pair are of one component, only these two move; else both components move. The larger
        circle or component of a pair moves less. Adds the moves of single circles to ``moves``, shape (circles,).
        Returns the moves of components, shape (components,), and the largest distance in pixels by which a pair is
        still too close.
        """
        circle_a, circle_b = self._near
        component_a, component_b = self.component[circle_a], self.component[circle_b]
        # a bubble between parts of a component must get out
        is_inner = (component_a == component_b) | (self._heat == 0)
        way = self.at[circle_a] - self.at[circle_b]
        # in the same place: any direction will do
        way = np.where(np.abs(way) < 1e-6, 1e-3 * np.exp(1j * circle_a), way)
        distance = np.abs(way)
        gap = np.where(component_a == component_b, self.gap * (1.2 + 0.4 * (self._heat > 0)), self._preferred_gap)
        lack = np.maximum(self.radius[circle_a] + self.radius[circle_b] + gap - distance, 0.0)
        push = way * (0.7 * lack / distance)
        part = self._weight[circle_b] / (self._weight[circle_a] + self._weight[circle_b])
        inner = push * is_inner
        moves += self._summed(circle_a, inner * part) - self._summed(circle_b, inner * (1 - part))
        return self._pushed(component_a, component_b, push * ~is_inner), float(lack.max(initial=0.0))

    def _push_off_lines(self, rigid: Points) -> None:
        """Add to ``rigid`` the moves of components that keep circles off the lines of other components.

        ``rigid`` has the shape (components,).
        """
        circle, line = self._crossings
        way = self._way_off(circle, line)
        distance = np.maximum(np.abs(way), 1e-6)
        push = way * (0.5 * np.maximum(self.radius[circle] + 2 * self.gap - distance, 0.0) / distance)
        rigid += self._pushed(self.component[circle], self.component[self.ends[0][line]], push)

    def _contract(self) -> None:
        """Shrink each component a little, less along the frame's longer side, and keep all circles in the frame."""
        middle = (self._summed(self.component, self.at, len(self._members)) / self._members)[self.component]
        off = self.at - middle
        wider = self.corner.real / self.corner.imag
        at = self.at - 0.006 * self._heat * (off.real + 1j * wider * off.imag)
        edge = self.radius + self.gap
        across = np.clip(at.real, edge, self.corner.real - edge)
        self.at = across + 1j * np.clip(at.imag, edge, self.corner.imag - edge)

    def _way_off(self, circle: Indices, line: Indices) -> Points:
        """Return a vector for each pair of circle and line: from the line's nearest point to the circle's centre."""
        start = self.at[self.ends[0][line]]
        way, off = self.at[self.ends[1][line]] - start, self.at[circle] - start
        along = (off * way.conj()).real / np.maximum(np.abs(way) ** 2, 1e-9)
        ways: Points = off - np.clip(along, 0.0, 1.0) * way
        return ways

    def _pushed(self, component_a: Indices, component_b: Indices, push: Points) -> Points:
        """Return the moves of all components, shape (components,), from pushes between pairs of components.

        ``component_a`` and ``component_b`` are the component numbers of the pairs, ``push`` the vectors by which
        ``component_a`` should move away from ``component_b``; all have the shape (pairs,). A push is divided between
        the two, and the larger component moves less.
        """
        part = self._weights[component_b] / (self._weights[component_a] + self._weights[component_b])
        count = len(self._weights)
        return self._summed(component_a, push * part, count) - self._summed(component_b, push * (1 - part), count)

    def _summed(self, index: Indices, moves: Points, count: int | None = None) -> Points:
        size = len(self.at) if count is None else count
        sums: Points = np.bincount(index, moves.real, size) + 1j * np.bincount(index, moves.imag, size)
        return sums
