"""The content of a map's picture: bubbles, rings, dots, lines and clusters, read from the map's tables.

``layout`` computes their positions, ``drawing`` their shapes and colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from holderlake.core.contract.figures import share_text
from holderlake.core.units import counted
from holderlake.presentation.evidence import kind_of


@dataclass(frozen=True)
class Node:
    """A bubble (a shown holder), a ring (a magic node) or a dot (a time node).

    Only holders have a ``share`` of supply (0 to 1). ``cluster`` is the number of the node's cluster (1 is the
    largest), None outside clusters. ``time_node`` is the number of a time node, None for others; an exchange has one
    time node for each time window.
    """

    address: str
    rank: int | None
    share: float | None
    label: str | None
    cluster: int | None
    time_node: int | None = None

    @property
    def key(self) -> str:
        """Unique name of the node: its address and, for a time node, the number."""
        return self.address if self.time_node is None else f"{self.address}#{self.time_node}"


@dataclass(frozen=True)
class Line:
    """A line between two nodes, for the transfers of any token between them.

    ``first_node`` and ``second_node`` are the indexes of the nodes in ``Scene.nodes``. ``forth`` and ``back`` are
    whether there are transfers from the first to the second, and from the second to the first.
    """

    first_node: int
    second_node: int
    forth: bool = True
    back: bool = False


@dataclass(frozen=True)
class ClusterFigures:
    """One cluster in the picture's list of clusters.

    ``number`` is its number (1 is the largest), ``share`` its share of supply (0 to 1), ``holders`` the number of its
    holders.
    """

    number: int
    share: float
    holders: int


@dataclass(frozen=True)
class Scene:
    """The content of a picture.

    ``nodes`` has bubbles by rank, then rings, then dots. ``clusters`` are in descending order of their share.
    ``figures`` has the values of ``FIGURES`` by column; None if a figure does not apply.
    ``listed`` is the number of top holders, including those that are not drawn, whose kinds are ``left_out``.
    ``not_drawn`` says what share these have, and what share the holders have that are not listed.
    """

    nodes: tuple[Node, ...]
    lines: tuple[Line, ...]
    clusters: tuple[ClusterFigures, ...]
    figures: Mapping[str, float | None]
    listed: int
    left_out: tuple[str, ...] = ()
    not_drawn: str = ""


_NOTABLE_REST: Final = 0.0005
"""A smaller share outside of the list is not worth its figure."""
_KINDS: Final = {
    "exchange": "exchanges",
    "pool": "pools",
    "contract": "contracts",
    "burn": "burn addresses",
    "hub": "busiest wallets",
}
"""The kinds of addresses without one owner, and their plurals, as in ``web/src/format.ts``."""


def scene_of(tables: Mapping[str, pa.Table]) -> Scene:
    """Return the scene of a map. ``tables`` are the result of ``holderlake.engine.maps.maps.map_as_of``, by name."""
    members = tables["cluster_members"].select(["address", "cluster_id"]).to_pydict()
    cluster = dict(zip(members["address"], members["cluster_id"], strict=True))
    columns = ["kind", "address", "rank", "share", "is_shown_on_map", "label", "time_node"]
    columns += ["is_cex", "is_dex", "is_contract"]
    rows = tables["map_nodes"].select(columns).to_pylist()
    # the picture must not depend on the order of the rows
    rows.sort(key=lambda row: (row["rank"] or 0, row["address"], row["time_node"] or 0))
    linked = _clusters_of_time_nodes(tables["grouped_transfers"], cluster)
    holders = [row for row in rows if row["kind"] == "top_holder"]

    def node(row: Mapping[str, Any], share: float | None) -> Node:
        return Node(row["address"], row["rank"], share, row["label"], cluster.get(row["address"]))

    nodes = (
        *(node(row, max(0.0, row["share"] or 0.0)) for row in holders if row["is_shown_on_map"]),
        *(node(row, None) for row in rows if row["kind"] == "magic"),
        *(
            Node(row["address"], None, None, row["label"], linked[row["time_node"]], row["time_node"])
            for row in rows
            if row["kind"] == "time" and row["time_node"] in linked
        ),
    )
    lines, (figures,) = _lines(tables["grouped_transfers"], nodes), tables["maps"].to_pylist()
    if not any(row["label"] or row["is_cex"] or row["is_dex"] for row in rows):  # 0 only says that nothing is known
        figures |= {name: figures[name] or None for name in ("cexs", "dexs")}
    absent = [row for row in holders if not row["is_shown_on_map"]]
    kinds = {kind_of(row) for row in absent}
    left_out = tuple(plural for kind, plural in _KINDS.items() if kind in kinds)
    not_drawn = _not_drawn(left_out, absent, holders)
    return Scene(nodes, lines, _clusters(tables), figures, len(holders), left_out, not_drawn)


def _not_drawn(kinds: Sequence[str], absent: Sequence[Mapping[str, Any]], holders: Sequence[Mapping[str, Any]]) -> str:
    """Return what a map does not draw: the ``absent`` of its ``holders``, of ``kinds``, and who is not among these.

    It is the text of ``web/src/format.ts``.
    """
    together = share_text(sum(row["share"] or 0.0 for row in absent))
    parts = [f"{', '.join(kinds)}, {together} of the supply"] if absent else []
    rest = 1 - sum(row["share"] or 0.0 for row in holders)
    if holders and rest >= _NOTABLE_REST:
        parts.append(f"{share_text(rest)} outside the {counted(len(holders), 'largest holder')}")
    return "; ".join(parts)


def _clusters_of_time_nodes(transfers: pa.Table, cluster: Mapping[str, int]) -> dict[int, int]:
    """Return the cluster of each time node, as numbers: a dictionary from time node to cluster.

    The time nodes are those with a transfer of an address in ``cluster``, a dictionary from address to cluster number.
    ``transfers`` is the table ``grouped_transfers``.
    """
    columns = transfers.select(["time_node", "from_address", "to_address"]).to_pydict()
    return {
        number: cluster[end]
        for number, *ends in zip(*columns.values(), strict=True)
        for end in ends
        if number is not None and end in cluster
    }


def _lines(transfers: pa.Table, nodes: tuple[Node, ...]) -> tuple[Line, ...]:
    wallets = {node.address: number for number, node in enumerate(nodes) if node.time_node is None}
    exchanges = {(node.address, node.time_node): number for number, node in enumerate(nodes) if node.time_node}
    columns = transfers.select(["from_address", "to_address", "time_node"]).to_pydict()
    ways: set[tuple[int, int]] = set()
    for sender, receiver, window in zip(*columns.values(), strict=True):
        first_node, second_node = (exchanges.get((end, window), wallets.get(end)) for end in (sender, receiver))
        is_in_window = window is None or (sender, window) in exchanges or (receiver, window) in exchanges
        if is_in_window and first_node is not None and second_node is not None and first_node != second_node:
            ways.add((first_node, second_node))
    pairs = sorted({(min(way), max(way)) for way in ways})
    return tuple(Line(*pair, pair in ways, pair[::-1] in ways) for pair in pairs)


def _clusters(tables: Mapping[str, pa.Table]) -> tuple[ClusterFigures, ...]:
    rows = tables["clusters"].select(["cluster_id", "share", "holder_count"]).to_pylist()
    rows.sort(key=lambda row: row["cluster_id"])
    return tuple(ClusterFigures(row["cluster_id"], row["share"], row["holder_count"]) for row in rows)
