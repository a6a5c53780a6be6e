"""What a map's picture shows, as plain data: bubbles, rings, lines and clusters, read from the map's tables.

Where these stand is ``layout``'s, how they look ``draw``'s.

Time nodes are left out. They never join holders into a cluster, and a line from one coloured group to another through
an exchange would say the opposite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Node:
    """A bubble (a shown holder, with its ``share`` of supply, 0 to 1) or a ring (a magic node; ``share`` is None).

    ``rank`` is a holder's among all holders; ``cluster`` is the number of its cluster, 1 the largest, and None outside
    clusters.
    """

    address: str
    rank: int | None
    share: float | None
    label: str | None
    cluster: int | None


@dataclass(frozen=True)
class Line:
    """Two nodes by their places in the scene and how many transfers went between them, either way, of any token."""

    first: int
    second: int
    transfers: int


@dataclass(frozen=True)
class ClusterFigures:
    """A cluster's line of the legend."""

    number: int
    share: float
    holders: int


@dataclass(frozen=True)
class Figures:
    """The map's figures; shares are 0 to 1, the score 0 to 100, and each is None where it does not apply."""

    score: float | None
    top_10: float | None
    exchanges: float | None
    contracts: float | None


@dataclass(frozen=True)
class Scene:
    """All that a picture shows: bubbles by rank and then rings, the lines among them, clusters by falling share.

    ``listed`` counts the top holders, those that are not drawn too.
    """

    nodes: tuple[Node, ...]
    lines: tuple[Line, ...]
    clusters: tuple[ClusterFigures, ...]
    figures: Figures
    listed: int


def scene_of(tables: Mapping[str, pa.Table]) -> Scene:
    """The scene of the tables of ``engine.maps.map_as_of``."""
    members = tables["cluster_members"].select(["address", "cluster_id"]).to_pydict()
    cluster = dict(zip(members["address"], members["cluster_id"], strict=True))
    rows = tables["map_nodes"].select(["kind", "address", "rank", "share", "is_shown_on_map", "label"]).to_pylist()
    # in an order of their own, so that the picture does not hang on that of the rows
    rows.sort(key=lambda row: (row["rank"] or 0, row["address"]))
    holders = [row for row in rows if row["kind"] == "top_holder"]

    def node(row: Mapping[str, Any], share: float | None) -> Node:
        return Node(row["address"], row["rank"], share, row["label"], cluster.get(row["address"]))

    nodes = (
        *(node(row, max(0.0, row["share"] or 0.0)) for row in holders if row["is_shown_on_map"]),
        *(node(row, None) for row in rows if row["kind"] == "magic"),
    )
    return Scene(nodes, _lines(tables["grouped_transfers"], nodes), _clusters(tables), _figures(tables), len(holders))


def _lines(transfers: pa.Table, nodes: tuple[Node, ...]) -> tuple[Line, ...]:
    place = {node.address: number for number, node in enumerate(nodes)}
    columns = transfers.select(["from_address", "to_address", "total_transfers", "time_node"]).to_pydict()
    counts: dict[tuple[int, int], int] = {}
    for sender, receiver, transfers_between, window in zip(*columns.values(), strict=True):
        if window is None and sender != receiver and sender in place and receiver in place:
            pair = min(place[sender], place[receiver]), max(place[sender], place[receiver])
            counts[pair] = counts.get(pair, 0) + (transfers_between or 1)
    return tuple(Line(*pair, count) for pair, count in sorted(counts.items()))


def _clusters(tables: Mapping[str, pa.Table]) -> tuple[ClusterFigures, ...]:
    rows = tables["clusters"].select(["cluster_id", "share", "holder_count"]).to_pylist()
    rows.sort(key=lambda row: row["cluster_id"])
    return tuple(ClusterFigures(row["cluster_id"], row["share"], row["holder_count"]) for row in rows)


def _figures(tables: Mapping[str, pa.Table]) -> Figures:
    row = tables["maps"].to_pylist()[0]
    exchanges = [row[name] for name in ("cexs", "dexs") if row[name] is not None]
    return Figures(
        row["service_score"], row["top_10_adjusted"], sum(exchanges) if exchanges else None, row["contracts"]
    )
