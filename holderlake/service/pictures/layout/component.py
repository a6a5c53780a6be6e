"""One component of linked nodes by itself: linked ones close, none over another, and what room it takes.

networkx unfolds the component; here its lines are then drawn to a good length while circles push each other apart.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import networkx as nx
import numpy as np

from holderlake.service.pictures.layout.circles import Floats, Places, bounds, near, pushed, summed


def spot(text: str) -> tuple[float, float]:
    """A point of the square from -1 to 1 that the text alone decides."""
    digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest[:4], "big") / 2**31 - 1, int.from_bytes(digest[4:], "big") / 2**31 - 1


def laid_out(addresses: Sequence[str], radius: Floats, ends: Places, gap: float, wider: float) -> Floats:
    """Centres of linked nodes, in pixels, no two circles nearer than a little more than ``gap``.

    ``ends`` are the two nodes of each line, a row a line; ``wider`` is the wanted width by height.
    """
    at = _unfolded(addresses, ends) * (math.sqrt(wider), 1 / math.sqrt(wider))
    # as spread out as circles of these radii that fill about half of a disc
    wanted = 0.8 * math.sqrt(float(np.sum((radius + 2 * gap) ** 2)))
    at *= wanted / max(math.sqrt(float(np.mean(at**2))), 1e-9)
    return _apart(_relaxed(at, radius, ends, gap, wider), radius, 1.2 * gap)


def guards(at: Floats, radius: Floats, ends: Places, gap: float) -> Floats:
    """Circles that cover the component's own circles and its lines, with some room: a row of x, y and radius each."""
    room = 1.2 * gap
    wide = max(room, float(np.ptp(at, axis=0).max()) / 50)  # coarser in large components, so that they stay few
    first, second = ends[:, 0], ends[:, 1]
    way = at[second] - at[first]
    length = np.hypot(way[:, 0], way[:, 1])
    free = np.maximum(length - radius[first] - radius[second], 0.0)
    counts = np.maximum(1, np.ceil(free / (1.5 * wide))).astype(np.intp)
    line = np.repeat(np.arange(len(ends)), counts)
    step = np.arange(len(line)) - np.repeat(np.cumsum(counts) - counts, counts)
    along = (radius[first][line] + free[line] * (step + 0.5) / counts[line]) / length[line]
    beads = at[first][line] + along[:, None] * way[line]
    _, kept = np.unique(np.round(beads / wide).astype(np.int64), axis=0, return_index=True)
    return np.concatenate(
        [np.column_stack([at, radius + room]), np.column_stack([beads[kept], np.full(len(kept), wide)])]
    )


def covered(circles: Floats) -> float:
    """The area that circles (rows of x, y and radius) cover together; counted on a grid, because they overlap."""
    low, high = bounds(circles[:, :2], circles[:, 2])
    cell = float((high - low).max()) / 64
    xs, ys = np.arange(low[0], high[0], cell), np.arange(low[1], high[1], cell)
    grid = np.zeros((len(ys), len(xs)), dtype=bool)
    for x, y, size in circles:
        left, right = np.searchsorted(xs, (x - size, x + size))
        top, bottom = np.searchsorted(ys, (y - size, y + size))
        inside = (xs[None, left:right] - x) ** 2 + (ys[top:bottom, None] - y) ** 2 < size * size
        grid[top:bottom, left:right] |= inside
    return float(grid.sum()) * cell * cell


def _unfolded(addresses: Sequence[str], ends: Places) -> Floats:
    """Points of linked nodes close and of others apart, starting from where their addresses put them."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(addresses)))
    graph.add_edges_from((int(first), int(second)) for first, second in ends)
    start = {number: np.array(spot(address)) for number, address in enumerate(addresses)}
    steps = 100 if len(addresses) < 200 else 60  # each takes the square of the nodes
    found = nx.forceatlas2_layout(graph, pos=start, max_iter=steps)
    at = np.array([found[number] for number in range(len(addresses))], dtype=np.float64)
    centred: Floats = at - at.mean(axis=0)
    return centred


def _relaxed(at: Floats, radius: Floats, ends: Places, gap: float, wider: float) -> Floats:
    """Lines drawn to a good length, weaker and weaker, while circles that are too near push each other away."""
    steps = 160
    first, second = ends[:, 0], ends[:, 1]
    degree = np.bincount(ends.ravel(), minlength=len(radius))
    length = radius[first] + radius[second] + 3.5 * gap
    # a leaf comes close to its only neighbour, while a web of many lines keeps its shape
    stiffness = 0.5 / np.minimum(degree[first], degree[second]) ** 2
    part = (degree[second] / (degree[first] + degree[second]))[:, None]
    weight = (radius + gap) ** 2
    to_middle = 0.006 * np.array([1.0, wider])
    for step in range(steps):
        heat = 1 - step / steps
        if step % 8 == 0:
            pairs = near(at, radius, 6 * gap)
        way = at[second] - at[first]
        distance = np.maximum(np.hypot(way[:, 0], way[:, 1]), 1e-9)
        move = way * (heat * stiffness * (distance - length) / distance)[:, None]
        at = at + summed(first, move * part, len(radius)) - summed(second, move * (1 - part), len(radius))
        at -= heat * to_middle * at
        at, _ = pushed(at, radius, weight, 1.6 * gap, pairs)
    return at


def _apart(at: Floats, radius: Floats, gap: float) -> Floats:
    """The centres with no two circles nearer than ``gap``: pushed, and all spread out as far as that needs."""
    weight = (radius + gap) ** 2
    for _ in range(60):
        pairs = near(at, radius, 4 * gap)
        for _ in range(10):
            at, lack = pushed(at, radius, weight, gap, pairs)
        if lack < 0.1 * gap:
            break
        at = at * 1.03
    first, second = near(at, radius, gap)
    if not first.size:
        return at
    way = at[first] - at[second]
    needed = (radius[first] + radius[second] + gap) / np.maximum(np.hypot(way[:, 0], way[:, 1]), 1e-6)
    return at * max(1.0, float(needed.max()))
