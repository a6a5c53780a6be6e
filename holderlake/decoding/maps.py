"""Maps as their five tables. A block that the answer leaves out is a table without rows.

A time node is numbered from 1 in the answer's order, and its own relationships carry that number. A cluster is
numbered from 1, the largest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from msgspec import Raw

from holderlake.contract.models import score_name
from holderlake.contract.tables import TABLES, assemble
from holderlake.decoding.columns import amounts_of, figure_of, integers_of, texts_of, written
from holderlake.decoding.holders import Columns, Common, Owners, details_columns, holding_columns, ranked
from holderlake.decoding.structs import NULL, SCORE_COUNT, SCORE_FIGURES, Nodes
from holderlake.decoding.transfers import Transfers

_NO_NODES: Final = Nodes()
_SHARES: Final = ("cexs", "dexs", "contracts", "fresh_wallets", "top_10_adjusted", "bundles")
_read_scores: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_read_count: Final = msgspec.json.Decoder(int | None).decode
_ENCODER: Final = msgspec.json.Encoder()


def tables_of(answers: Iterable[Any], owners: Owners, common: Common, lenient: bool) -> dict[str, pa.Table]:
    """Return the five tables of some maps."""
    transfers, kept = Transfers(), []
    for answer in answers:
        time_nodes = (answer.nodes or _NO_NODES).time_nodes or ()
        transfers.add(answer.relationships or (), time_nodes, lenient)
        answer.relationships = None  # most of the answer: freeing it while it is in the cache costs least
        kept.append(answer)
    nodes = [answer.nodes or _NO_NODES for answer in kept]
    clusters = [_largest_first(answer.clusters or ()) for answer in kept]
    return {
        "maps": _maps(kept, owners, common),
        "map_nodes": _map_nodes(nodes, owners, common),
        "grouped_transfers": _map_transfers(transfers, owners, common),
        "clusters": _clusters(clusters, owners, common),
        "cluster_members": _cluster_members(clusters, owners, common),
    }


def _maps(answers: Sequence[Any], owners: Owners, common: Common) -> pa.Table:
    rows = [_map_row(answer) for answer in answers]
    columns: Columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["token_address"] = owners.of([1] * len(rows))
    return assemble(TABLES["maps"], len(rows), common, columns)


def _map_row(answer: Any) -> Columns:
    supply, scores = answer.metrics.supply_stats, _read_scores(answer.metrics.scores)
    name = score_name(scores)
    others = {key: scores[key] for key in sorted(scores) if key.endswith("_score") and key != name}
    return {
        "dt_update": answer.metadata.dt_update,
        **{share: figure_of(getattr(supply, share)) for share in _SHARES},
        "service_score": figure_of(scores.get(name or "", NULL)),
        **{figure: figure_of(scores.get(figure, NULL)) for figure in SCORE_FIGURES},
        SCORE_COUNT: _read_count(scores.get(SCORE_COUNT, NULL)),
        "other_scores": _ENCODER.encode(others).decode() if others else None,
    }


def _largest_first(clusters: Sequence[Any]) -> list[tuple[float | None, Any]]:
    """Return clusters with their shares; those without a share last."""
    shares = [figure_of(cluster.share) for cluster in clusters]
    return sorted(zip(shares, clusters, strict=True), key=lambda one: float("inf") if one[0] is None else -one[0])


def _map_nodes(nodes: Sequence[Any], owners: Owners, common: Common) -> pa.Table:
    """All top holders, then all magic nodes, then all time nodes."""
    windows = [own.time_nodes or () for own in nodes]
    top = [ranked(own.top_holders or ()) for own in nodes]
    magic = [own.magic_nodes or () for own in nodes]
    kinds: dict[str, Sequence[Sequence[Any]]] = {"top_holder": top, "magic": magic, "time": windows}
    addresses = [node.address for of_answers in kinds.values() for own in of_answers for node in own]
    counts = [[len(own) for own in of_answers] for of_answers in kinds.values()]
    known = [node for of_answers in (top, magic) for own in of_answers for node in own]
    timed = sum(counts[2])
    columns = {
        "token_address": pa.concat_arrays([owners.of(of_kind) for of_kind in counts]),
        "kind": [kind for kind, of_kind in zip(kinds, counts, strict=True) for _ in range(sum(of_kind))],
        "address": written(addresses),
        "is_shown_on_map": [node.is_shown_on_map for node in known] + [None] * timed,
        "time_node": [None] * len(known) + [number for count in counts[2] for number in range(1, count + 1)],
        **holding_columns([node.holder_data for own in top for node in own], len(addresses) - sum(counts[0])),
        **details_columns([node.address_details for node in known] + [None] * timed),
    }
    return assemble(TABLES["map_nodes"], len(addresses), common, columns)


def _map_transfers(transfers: Transfers, owners: Owners, common: Common) -> pa.Table:
    """Of each answer all relationships outside time nodes, then those of its time nodes."""
    windows = transfers.windows
    columns = transfers.columns() | {
        "token_address": owners.of(transfers.counts),
        "time_node": pa.array(windows, mask=windows == 0),
    }
    return assemble(TABLES["grouped_transfers"], len(windows), common, columns)


def _clusters(clusters: Sequence[Sequence[tuple[float | None, Any]]], owners: Owners, common: Common) -> pa.Table:
    listed = [cluster for own in clusters for _, cluster in own]
    columns = {
        "token_address": owners.of([len(own) for own in clusters]),
        "cluster_id": [number for own in clusters for number in range(1, len(own) + 1)],
        "share": [share for own in clusters for share, _ in own],
        "holder_count": integers_of([cluster.holder_count for cluster in listed]),
        "magic_node_count": integers_of([cluster.magic_node_count for cluster in listed]),
        **amounts_of("amount", texts_of([cluster.amount for cluster in listed])),
    }
    return assemble(TABLES["clusters"], len(listed), common, columns)


def _cluster_members(
    clusters: Sequence[Sequence[tuple[float | None, Any]]], owners: Owners, common: Common
) -> pa.Table:
    addresses: list[str] = []
    kinds: list[str] = []
    numbers: list[int] = []
    counts = []
    for own in clusters:
        before = len(addresses)
        for number, (_, cluster) in enumerate(own, 1):
            holders, magic = cluster.holders or [], cluster.magic_nodes or []
            addresses += holders
            addresses += magic
            kinds += ["holder"] * len(holders) + ["magic"] * len(magic)
            numbers += [number] * (len(holders) + len(magic))
        counts.append(len(addresses) - before)
    columns = {"token_address": owners.of(counts), "cluster_id": numbers, "address": written(addresses), "kind": kinds}
    return assemble(TABLES["cluster_members"], len(addresses), common, columns)
