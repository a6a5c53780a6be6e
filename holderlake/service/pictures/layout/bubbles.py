"""Where the bubbles, rings and lines of a picture stand: sizes by share, linked nodes close, nothing over another.

Every component of linked nodes is laid out by itself (``component``), the components are packed into the frame
(``packing``), and all is made as large as the frame allows. Nothing is left to chance: where things start comes from
their addresses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import networkx as nx
import numpy as np

from holderlake.service.pictures.layout.circles import Floats, Frame, Places, bounds
from holderlake.service.pictures.layout.component import covered, guards, laid_out
from holderlake.service.pictures.layout.packing import Body, Placed, eased, packed
from holderlake.service.pictures.scene import Scene

_FILL: Final = 0.72
"""The part of the frame that bubbles with the room around them are to fill; they shrink where that does not fit."""
_SHRINK: Final = 0.95
_LARGEST: Final = 0.32
"""The largest radius, as a part of the frame's shorter side."""
_GROWTH: Final = 1.5
"""How much larger all may become to fill the frame; more would blow up dust."""


@dataclass(frozen=True)
class Layout:
    """Centres and radii of the scene's nodes in pixels, in the scene's order.

    A holder of ``share`` has the radius ``scale * sqrt(share)``, but none is below ``smallest``. Around the bubbles and
    lines of a component is a room of ``gap`` that no other enters.
    """

    x: Floats
    y: Floats
    radius: Floats
    scale: float
    smallest: float
    gap: float

    def is_enlarged(self, share: float) -> bool:
        """Whether a holder's bubble is larger than its share, to be seen."""
        return self.scale * math.sqrt(share) < self.smallest * (1 - 1e-9)


def place(scene: Scene, frame: Frame, unit: float) -> Layout:
    """The layout of a scene within a frame; ``unit`` is the size of the picture's text in pixels."""
    if not scene.nodes:
        return Layout(np.empty(0), np.empty(0), np.empty(0), 0.0, 0.0, 0.0)
    shares = np.array([node.share or 0.0 for node in scene.nodes])
    is_ring = np.array([node.share is None for node in scene.nodes], dtype=bool)
    crowd = min(1.0, max(0.4, math.sqrt(100 / len(shares))))
    gap, smallest, ring = 0.32 * unit * crowd, 0.16 * unit, 0.32 * unit * max(crowd, 0.85)
    groups = _groups(scene)
    scale = _scale(shares[~is_ring], groups, frame, gap, smallest)
    radius = np.where(is_ring, ring, np.maximum(scale * np.sqrt(shares), smallest))
    bodies = [_body(scene, group, radius, gap, frame) for group in groups]
    # nearly equal ones by address, so that a small change does not put all into another order
    bodies.sort(key=lambda body: (-round(math.log(body.area, 1.3)), body.address))
    factor, placed = _fitted(bodies, gap, frame)
    at = np.empty((len(shares), 2))
    for one in eased(placed, gap * factor, frame):
        at[one.body.nodes] = one.centre + one.body.at
    at, grown = _stretched(at, radius * factor, frame.inset(gap * factor), _LARGEST * min(frame.width, frame.height))
    factor *= grown
    return Layout(at[:, 0], at[:, 1], radius * factor, scale * factor, smallest * factor, gap * factor)


def _groups(scene: Scene) -> list[Places]:
    """The components of linked nodes, and single nodes, each with its largest holder first."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(scene.nodes)))
    graph.add_edges_from((line.first, line.second) for line in scene.lines)
    return [np.array(sorted(component), dtype=np.intp) for component in nx.connected_components(graph)]


def _scale(shares: Floats, groups: Sequence[Places], frame: Frame, gap: float, smallest: float) -> float:
    """The radius in pixels of a holder of everything: as large as the frame lets it be."""
    whole = _LARGEST * min(frame.width, frame.height)
    if not shares.size or not shares.max():
        return whole
    linked = sum(len(group) for group in groups if len(group) > 1)
    room = _FILL * frame.width * frame.height / (1 + 0.6 * linked / len(shares))  # lines take room too
    low, high = 0.0, whole / math.sqrt(shares.max())

    def needed(scale: float) -> float:
        return float(np.sum(np.pi * (np.maximum(scale * np.sqrt(shares), smallest) + gap) ** 2))

    if needed(high) <= room:
        return high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if needed(middle) <= room else (low, middle)
    return max(low, 1e-9 * high)


def _body(scene: Scene, group: Places, radius: Floats, gap: float, frame: Frame) -> Body:
    own = radius[group]
    addresses = [scene.nodes[node].key for node in group]
    if len(group) == 1:
        circle = np.array([[0.0, 0.0, own[0]]])
        return Body(group, addresses[0], np.zeros((1, 2)), circle, math.pi * float(own[0] + gap) ** 2)
    number = {int(node): index for index, node in enumerate(group)}
    lines = [(number[line.first], number[line.second]) for line in scene.lines if line.first in number]
    ends = np.array(lines, dtype=np.intp)
    # the more of all it is, the more it takes the frame's shape
    wider = (frame.width / frame.height) ** float(np.sum(own**2) / np.sum(radius**2))
    at = laid_out(addresses, own, ends, gap, wider)
    around = guards(at, own, ends, gap)
    low, high = bounds(around[:, :2], around[:, 2])
    middle = (low + high) / 2
    return Body(group, addresses[0], at - middle, around - np.array([*middle, 0.0]), covered(around))


def _fitted(bodies: Sequence[Body], gap: float, frame: Frame) -> tuple[float, list[Placed]]:
    """What all sizes are multiplied by, 1 if that fits, and the bodies placed, as far apart as they still fit."""
    factor = min(1.0, *(float((frame.inset(gap).size / body.size).min()) for body in bodies))
    spaced = 3.0
    while True:
        between = spaced * gap * factor
        # only between each other: to the frame the plain gap is enough
        placed = packed([body.scaled(factor) for body in bodies], between, frame.inset(gap * factor - between))
        if placed is not None:
            return factor, placed
        factor, spaced = (factor, spaced - 0.4) if spaced > 1.2 else (factor * _SHRINK, spaced)


def _stretched(at: Floats, radius: Floats, frame: Frame, largest: float) -> tuple[Floats, float]:
    """Everything moved to the frame's middle and made larger as far as it allows, and how many times as large."""
    low, high = bounds(at, radius)
    fitting = float((frame.size / np.maximum(high - low, 1e-9)).min())
    grown = max(1.0, min(fitting, largest / float(radius.max()), _GROWTH))
    moved: Floats = frame.origin + frame.size / 2 + (at - (low + high) / 2) * grown
    return moved, grown
