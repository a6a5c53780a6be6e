"""Sizes and positions of bubbles and rings: area by share, linked nodes close together, no overlaps.

networkx places the nodes of each component (nodes that links connect) in a disc. The discs, and then all circles, are
packed round the middle of the frame, as in the explorer. Start positions depend on addresses only, so after a small
change of the data most bubbles stay in place.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import networkx as nx
import numpy as np

from holderlake.presentation.pictures.layout.packing import Floats, Indices, Points, packed
from holderlake.presentation.pictures.layout.page import Area
from holderlake.presentation.pictures.scene import Scene

_FILL: Final = 0.74
"""Part of the frame's area (0 to 1) that bubbles and the gaps around them should cover."""
_DENSITY: Final = 0.72
"""Part of a component's disc (0 to 1) that its circles fill."""
_LARGEST: Final = 0.32
"""Largest radius of a bubble, as a part of the frame's shorter side."""
_MOST_STRETCH: Final = 1.2
"""Limit of the final stretch towards the edges of the frame."""
_MOST_GROWTH: Final = 1.5
"""Limit of the final enlargement. A larger factor would make tiny holders look important."""


@dataclass(frozen=True)
class Layout:
    """Positions and sizes of all nodes of a picture, in pixels.

    ``x`` and ``y`` (centres) and ``radius`` are arrays of shape (nodes,), in the order of ``Scene.nodes``. The radius
    of a holder is ``scale * sqrt(share)``, but at least ``smallest``. ``gap`` is the preferred distance between two
    circles.
    """

    x: Floats
    y: Floats
    radius: Floats
    scale: float
    smallest: float
    gap: float

    def is_enlarged(self, share: float) -> bool:
        """Return whether the bubble of a share is enlarged to the smallest visible size."""
        return self.scale * math.sqrt(share) < self.smallest * (1 - 1e-9)


def place(scene: Scene, frame: Area, unit: float) -> Layout:
    """Compute the layout of a scene within a frame. ``unit`` is the size of the picture's text in pixels."""
    if not scene.nodes:
        return Layout(np.empty(0), np.empty(0), np.empty(0), 0.0, 0.0, 0.0)
    shares = np.array([node.share or 0.0 for node in scene.nodes])
    is_ring = np.array([node.share is None for node in scene.nodes], dtype=bool)
    density = min(1.0, max(0.4, math.sqrt(100 / len(shares))))
    gap, smallest, ring = 0.32 * unit * density, 0.16 * unit, 0.32 * unit * max(density, 0.85)
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(shares)))
    graph.add_edges_from((line.first_node, line.second_node) for line in scene.lines)
    components = [np.array(sorted(nodes), dtype=np.intp) for nodes in nx.connected_components(graph)]
    linked = sum(len(nodes) for nodes in components if len(nodes) > 1) / len(shares)
    scale = _scale(shares[~is_ring], _FILL / (1 + 0.5 * linked), frame, gap, smallest)
    radius = np.where(is_ring, ring, np.maximum(scale * np.sqrt(shares), smallest))
    keys, room, group = [node.key for node in scene.nodes], radius.copy(), np.empty(len(shares), dtype=np.intp)
    for number, nodes in enumerate(components):
        group[nodes] = number
        room[nodes] += gap if len(nodes) > 1 else 0.0  # lines between linked circles must be seen
    reach = np.sqrt(np.bincount(group, (room + gap) ** 2) / np.where(np.bincount(group) > 1, _DENSITY, 1.0))
    start = _start(reach, [keys[nodes[0]] for nodes in components], frame)
    aspect = frame.width / frame.height
    at = packed(start, reach - gap, np.arange(len(reach)), gap, aspect)[group]
    for number, nodes in enumerate(components):
        if len(nodes) > 1:
            at[nodes] += 0.5 * reach[number] * _unfolded(graph, nodes, keys)
    at = packed(at, room, group, gap, aspect)
    return _fitted(at, Layout(at.real, at.imag, radius, scale, smallest, gap), frame)


def _scale(shares: Floats, fill: float, frame: Area, gap: float, smallest: float) -> float:
    """Return ``Layout.scale``: the radius in pixels that a holder of the complete supply would have.

    With this scale, the bubbles and the gaps around them cover the part ``fill`` (0 to 1) of the frame. ``shares`` are
    the holders' shares of supply, ``smallest`` is the least radius of a bubble in pixels.
    """
    largest = _LARGEST * min(frame.width, frame.height)
    if not shares.size or not shares.max():
        return largest
    low, high = 0.0, largest / math.sqrt(shares.max())
    for _ in range(40):
        middle = (low + high) / 2
        covered = float(np.sum(np.pi * (np.maximum(middle * np.sqrt(shares), smallest) + gap) ** 2))
        low, high = (middle, high) if covered <= fill * frame.width * frame.height else (low, middle)
    return max(low, 1e-9 * high)


def _start(radius: Floats, keys: Sequence[str], frame: Area) -> Points:
    """Return start positions of components round 0 in pixels, the largest in the middle, shape (components,).

    A hash of its key gives the direction in which a component lies, so the direction stays the same when shares change.
    """
    at = np.zeros(len(keys), dtype=np.complex128)
    inner, wider = 0.0, math.sqrt(frame.width / frame.height)
    for number in sorted(range(len(keys)), key=lambda number: (-radius[number], keys[number])):
        way = complex(math.cos(angle := math.pi * _hashed(keys[number]).real), math.sin(angle))
        way *= math.sqrt(inner) / (way.real**4 + way.imag**4) ** 0.25  # nearer to a rectangle than to an ellipse
        at[number] = complex(way.real * wider, way.imag / wider)
        inner += float(radius[number]) ** 2
    return at


def _unfolded(graph: nx.Graph[int], nodes: Indices, keys: Sequence[str]) -> Points:
    """Return positions of one component's ``nodes`` around 0, with a root mean square distance from 0 of about 1.

    networkx's ForceAtlas2 computes the positions. It starts from hashes of ``keys``, so that the same addresses get
    similar positions.
    """
    start = {int(node): np.array([_hashed(keys[node])]).view(np.float64) for node in nodes}
    steps = 100 if len(nodes) < 200 else 60  # each takes the square of the nodes
    positions = nx.forceatlas2_layout(graph.subgraph(start), pos=start, max_iter=steps)
    at: Points = np.array([complex(*positions[int(node)]) for node in nodes])
    at = at - at.mean()
    shape: Points = at / max(math.sqrt(float(np.mean(np.abs(at) ** 2))), 1e-9)
    return shape


def _hashed(text: str) -> complex:
    """Return a hash of the text as a point x + iy, with x and y from -1 to 1."""
    digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest()
    return complex(*(int.from_bytes(half, "big") / 2**31 - 1 for half in (digest[:4], digest[4:])))


def _fitted(at: Points, layout: Layout, frame: Area) -> Layout:
    """Return the layout enlarged to the frame. If circles still overlap, all circles shrink by one factor."""
    radius = layout.radius
    distance = np.abs(at[:, None] - at)
    np.fill_diagonal(distance, np.inf)
    shrunk = min(1.0, float((distance / (radius[:, None] + radius + 0.5 * layout.gap)).min()))
    edge = shrunk * (radius + layout.gap)
    left, right = float((at.real - edge).min()), float((at.real + edge).max())
    top, bottom = float((at.imag - edge).min()), float((at.imag + edge).max())
    fitting = min(frame.width / (right - left), frame.height / (bottom - top))
    largest = _LARGEST * min(frame.width, frame.height) / (shrunk * float(radius.max()))
    grown = min(fitting, max(1.0, largest), _MOST_GROWTH)
    at = (at - complex(left + right, top + bottom) / 2) * grown
    wider, higher = frame.width / (right - left) / grown, frame.height / (bottom - top) / grown
    at = at.real * min(_MOST_STRETCH, wider) + 1j * at.imag * min(_MOST_STRETCH, higher)
    at += complex(frame.left + frame.width / 2, frame.top + frame.height / 2)
    factor = shrunk * grown
    sizes = (layout.scale * factor, layout.smallest * factor, layout.gap * factor)
    return Layout(at.real, at.imag, radius * factor, *sizes)
