"""Bodies packed into a frame: one after the other, each at the free spot nearest to where it would like to be.

A body is a component of linked nodes, or a single node; it is not turned or bent. What it would like depends on its
address and size and on what stands already, so a small change of the data leaves most bodies about where they were.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from holderlake.service.pictures.layout.circles import Floats, Frame, Places, bounds, near, pushed
from holderlake.service.pictures.layout.component import spot

_SQUARENESS: Final = 4.0
"""Homes fill a superellipse of this exponent: 2 is an ellipse, more is nearer to the frame's rectangle."""
_BALANCE: Final = 3.0
"""How strongly a body is drawn to the side that has less on it."""
_CELLS: Final = 280
"""Columns of the grid of spots that are tried."""


@dataclass(frozen=True)
class Body:
    """Nodes that stay together, and the circles around them that nothing else may touch, from the body's own centre.

    ``address`` is its largest holder's; a row of ``guards`` is x, y and radius, and ``area`` what they cover.
    """

    nodes: Places
    address: str
    at: Floats
    guards: Floats
    area: float

    @property
    def size(self) -> Floats:
        """Width and height."""
        low, high = bounds(self.guards[:, :2], self.guards[:, 2])
        return high - low

    def scaled(self, factor: float) -> Body:
        """The body, so many times as large."""
        return Body(self.nodes, self.address, self.at * factor, self.guards * factor, self.area * factor * factor)


@dataclass(frozen=True)
class Placed:
    """A body and where its centre stands."""

    body: Body
    centre: Floats

    @property
    def guards(self) -> Floats:
        """The circles that nothing else may touch, where they stand."""
        moved: Floats = self.body.guards + np.array([*self.centre, 0.0])
        return moved


def packed(bodies: Sequence[Body], gap: float, frame: Frame) -> list[Placed] | None:
    """The bodies placed in this order with ``gap`` between them and to the frame, or None where they don't all fit."""
    cell = max(1.0, frame.width / _CELLS)
    xs = np.arange(frame.left + cell / 2, frame.left + frame.width, cell)
    ys = np.arange(frame.top + cell / 2, frame.top + frame.height, cell)
    across, down = xs[None, :] - frame.left, ys[:, None] - frame.top
    # how far the nearest thing is from each spot: at first the frame's edge
    room = np.minimum(np.minimum(across, frame.width - across), np.minimum(down, frame.height - down))
    largest = [float(body.guards[:, 2].max()) for body in bodies]
    reach = np.maximum.accumulate(largest[::-1])[::-1] + gap + 2 * cell
    homes = _Homes(frame, sum(body.area for body in bodies))
    placed: list[Placed] = []
    for number, body in enumerate(bodies):
        fits = np.ones(room.shape, dtype=bool)
        for x, y, size in body.guards:
            _clear(fits, room, x / cell, y / cell, size + gap, cell)
        if not fits.any():
            return None
        home = homes.next(body)
        distance = (xs[None, :] - home[0]) ** 2 + (ys[:, None] - home[1]) ** 2
        row, column = divmod(int(np.argmin(np.where(fits, distance, np.inf))), len(xs))
        placed.append(Placed(body, np.array([xs[column], ys[row]])))
        homes.add(placed[-1])
        for x, y, size in placed[-1].guards:
            _take(room, xs, ys, (x, y, size), float(reach[number]))
    return placed


def eased(placed: Sequence[Placed], gap: float, frame: Frame) -> list[Placed]:
    """Single bubbles moved a little, so that the room between all is even; as they were where that fails."""
    single = [one for one in placed if len(one.body.nodes) == 1]
    fixed = [one for one in placed if len(one.body.nodes) > 1]
    if not single:
        return fixed
    at = np.array([one.centre for one in single])
    radius = np.array([one.body.guards[0, 2] for one in single])
    walls = np.concatenate([np.empty((0, 3)), *(one.guards for one in fixed)])
    free = max(0.0, frame.width * frame.height - sum(one.body.area for one in fixed))
    between = math.sqrt(free / len(single)) - 2 * float(radius.mean())
    for part in (1.0, 0.5, 0.2):
        moved = _spread(at, radius, walls, gap, max(3 * gap, part * between), frame)
        if moved is not None:
            return [*fixed, *(Placed(one.body, centre) for one, centre in zip(single, moved, strict=True))]
    return list(placed)


def _clear(fits: NDArray[np.bool_], room: Floats, x: float, y: float, need: float, cell: float) -> None:
    """Clears the spots of a body at which its circle at (x, y), in cells, lacks the room that it needs."""
    column, row = round(x), round(y)
    need += cell * math.hypot(x - column, y - row)  # the circle stands beside the spot whose room is known
    height, width = room.shape
    enough = np.zeros_like(fits)
    tall, wide = height - abs(row), width - abs(column)
    if tall > 0 and wide > 0:
        here = (slice(max(0, -row), max(0, -row) + tall), slice(max(0, -column), max(0, -column) + wide))
        there = (slice(max(0, row), max(0, row) + tall), slice(max(0, column), max(0, column) + wide))
        enough[here] = room[there] >= need
    fits &= enough


def _take(room: Floats, xs: Floats, ys: Floats, circle: tuple[float, float, float], reach: float) -> None:
    """Lessens the room around a circle, as far out as anything that is still to come could touch it."""
    x, y, size = circle
    left, right = np.searchsorted(xs, (x - size - reach, x + size + reach))
    top, bottom = np.searchsorted(ys, (y - size - reach, y + size + reach))
    part = room[top:bottom, left:right]
    np.minimum(part, np.hypot(xs[None, left:right] - x, ys[top:bottom, None] - y) - size, out=part)


@dataclass
class _Homes:
    """Where bodies would like to be; it follows how much stands already and on which side."""

    frame: Frame
    total: float
    area: float = 0.0
    moment: Floats = field(default_factory=lambda: np.zeros(2))

    def add(self, placed: Placed) -> None:
        """Counts what stands now."""
        self.area += placed.body.area
        self.moment = self.moment + placed.body.area * self._way(placed.centre)

    def next(self, body: Body) -> Floats:
        """The first would be in the middle and large ones around it; small ones may be anywhere.

        The body's address gives direction and distance, but the direction is turned to the side with less on it.
        """
        if not self.area:
            return self.frame.origin + self.frame.size / 2
        turn, far = spot(body.address)
        angle = math.pi * turn
        way = np.array([math.cos(angle), math.sin(angle)]) - _BALANCE * self.moment / self.area
        length = float(np.sum(np.abs(way) ** _SQUARENESS)) ** (1 / _SQUARENESS)
        filled = min(0.95, math.sqrt(self.total / (0.75 * self.frame.width * self.frame.height)))
        distance = filled * math.sqrt((self.area + body.area) / self.total * (far + 1) / 2)
        home: Floats = self.frame.origin + self.frame.size / 2 * (1 + way * (distance / max(length, 1e-9)))
        return home

    def _way(self, centre: Floats) -> Floats:
        """From the frame's middle, in halves of the frame."""
        way: Floats = (centre - self.frame.origin) / (self.frame.size / 2) - 1
        return way


def _spread(at: Floats, radius: Floats, walls: Floats, gap: float, most: float, frame: Frame) -> Floats | None:
    """Circles pushed apart between walls that don't move, at first to ``most`` beyond the gap and then less and less.

    None where some are still too near to each other or to a wall in the end.
    """
    count = len(at)
    sizes = np.concatenate([radius, walls[:, 2]])
    weight = np.where(np.arange(len(sizes)) < count, (sizes + gap) ** 2, 1e12)
    low = frame.origin + gap + radius[:, None]
    high = frame.origin + frame.size - gap - radius[:, None]
    at = np.concatenate([at, walls[:, :2]])
    for step in range(180):
        wanted = gap + most * max(0.0, 1 - step / 90)
        if step % 10 == 0:
            pairs = near(at, sizes, 1.5 * wanted + 3 * gap, count)
        goal, lack = pushed(at, sizes, weight, wanted, pairs)
        way = goal[:count] - at[:count]
        step_size = np.maximum(np.hypot(way[:, 0], way[:, 1]), 1e-9)
        way *= np.minimum(1.0, 2 * gap / step_size)[:, None]  # small steps, or some would land beyond a wall
        at[:count] = np.clip(at[:count] + way, low, high)
        if wanted == gap and lack < 0.2 * gap:
            break
    jammed = near(at, sizes, 0.4 * gap, count)[0].size > 0
    return None if jammed else at[:count]
