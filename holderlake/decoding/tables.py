"""Arrow tables from decoded structs: holders, addresses, tokens, chains, relationships and the five tables of maps.

The public functions in ``decoding/__init__``, such as ``map_tables``, decode JSON into structs and call the functions
here.

A map without nodes, relationships or clusters has no rows in the tables of these parts. Time nodes are numbered from 1
in the answer's order; the column ``time_node`` of a relationship is the number of its time node. Clusters are numbered
from 1, the largest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Raw

from holderlake.contract.chains import normalise_address
from holderlake.contract.models import AddressDetails, HolderData, Nodes, Scores, score_name
from holderlake.contract.tables import DETAIL_COLUMNS, TABLES, assemble
from holderlake.decoding.columns import (
    amounts_of,
    date_times_of,
    figure_of,
    integers_of,
    normalised,
    texts_of,
)
from holderlake.decoding.structs import NULL, empty
from holderlake.decoding.transfers import Transfers

Columns = dict[str, Any]
"""Columns by name: Arrow arrays or sequences of values."""
Common = dict[str, pa.Scalar]
"""Values that all rows of a table share, by column."""

_NO_DETAILS: Final = empty(AddressDetails)
_NO_HOLDING: Final = empty(HolderData)
_details: Final = attrgetter(*DETAIL_COLUMNS)


class TokenColumn:
    """Builder of the column ``token_address``. ``token_addresses[i]`` is the token of the i-th answer."""

    def __init__(self, token_addresses: Sequence[str]) -> None:
        self._tokens = pa.array([normalise_address(address) for address in token_addresses], pa.string())

    def repeat(self, counts: Sequence[int]) -> pa.Array:
        """Return an Arrow array that repeats the token of the i-th answer ``counts[i]`` times."""
        if len(counts) == 1:
            return pa.repeat(self._tokens[0], counts[0])
        return self._tokens.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


def holders_table(answers: Sequence[Sequence[Any]], tokens: TokenColumn, common: Common) -> pa.Table:
    """Return the table ``holders``. ``answers[i]`` is the list of holders of the i-th token of ``tokens``.

    The rows of a token are sorted by rank. ``common`` has the values that are equal in all rows, by column.
    """
    listed = [holder for answer in answers for holder in _ranked(answer)]
    columns = {
        "token_address": tokens.repeat([len(answer) for answer in answers]),
        "address": normalised([holder.address for holder in listed]),
        **_holding_columns([holder.holder_data for holder in listed]),
        **_details_columns([holder.address_details for holder in listed]),
    }
    return assemble(TABLES["holders"], len(listed), common, columns)


def addresses_table(answer: Sequence[Any], common: Common) -> pa.Table:
    """Return the table ``addresses``: one row for each struct in ``answer``, in the same order.

    ``common`` has the values that are equal in all rows, by column.
    """
    columns = {
        "address": normalised([item.address for item in answer]),
        **_details_columns([item.address_details for item in answer]),
    }
    return assemble(TABLES["addresses"], len(answer), common, columns)


def tokens_table(answer: Sequence[Any], common: Common) -> pa.Table:
    """Return the table ``tokens``: one row for each struct in ``answer``. Missing statistics are null.

    ``common`` has the values that are equal in all rows, by column.
    """
    stats = [token.stats or token.token_stats for token in answer]
    columns = {
        "chain": [token.token_key.chain for token in answer],
        "token_address": normalised([token.token_key.address for token in answer]),
        "name": [token.metadata.name for token in answer],
        "symbol": [token.metadata.symbol for token in answer],
        "is_indexed": [token.metadata.is_indexed for token in answer],
        "img_url": [token.metadata.img_url for token in answer],
        "transfers_count": integers_of([token_stats and token_stats.transfers_count for token_stats in stats]),
        "min_date": date_times_of([token_stats and token_stats.min_date for token_stats in stats]),
        "max_date": date_times_of([token_stats and token_stats.max_date for token_stats in stats]),
    }
    return assemble(TABLES["tokens"], len(answer), common, columns)


def chains_table(answer: Sequence[Any], common: Common) -> pa.Table:
    """Return the table ``chains``: one row for each chain, with its id in the column ``chain``.

    ``common`` has the values that are equal in all rows, by column.
    """
    columns = {
        "chain": [chain.id for chain in answer],
        "name": [chain.name for chain in answer],
        "dexscreener_id": [chain.dexscreener_id for chain in answer],
        "coingecko_id": [chain.coingecko_id for chain in answer],
    }
    return assemble(TABLES["chains"], len(answer), common, columns)


def _ranked(holders: Sequence[Any]) -> list[Any]:
    """Return holders sorted by rank; holders without a rank come last."""
    try:
        return sorted(holders, key=lambda holder: holder.holder_data.rank)
    except (AttributeError, TypeError):
        return sorted(holders, key=_rank)


def _rank(holder: Any) -> float:
    rank = holder.holder_data and holder.holder_data.rank
    return float("inf") if rank is None else rank


def _holding_columns(holdings: Sequence[Any], null_count: int = 0) -> Columns:
    """Return the columns rank, share and amount: a row for each holding, then ``null_count`` rows of nulls."""
    holdings = [holding or _NO_HOLDING for holding in holdings]
    nulls = [None] * null_count
    amounts = amounts_of("amount", texts_of([holding.amount for holding in holdings]))
    return {
        "rank": [holding.rank for holding in holdings] + nulls,
        "share": [figure_of(holding.share) for holding in holdings] + nulls,
        **{name: pa.concat_arrays([array, pa.nulls(null_count, array.type)]) for name, array in amounts.items()},
    }


def _details_columns(details: Sequence[Any]) -> Columns:
    """Return the columns of address details (``DETAIL_COLUMNS``), one row for each element of ``details``."""
    columns: Columns = dict.fromkeys(DETAIL_COLUMNS, ())
    if details:
        rows = [_details(address_details or _NO_DETAILS) for address_details in details]
        columns.update(zip(DETAIL_COLUMNS, zip(*rows, strict=True), strict=True))
    return columns | {"first_activity_date": date_times_of(columns["first_activity_date"])}


_NO_NODES: Final = empty(Nodes)
_SHARES: Final = ("cexs", "dexs", "contracts", "fresh_wallets", "top_10_adjusted", "bundles")
_read_scores: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_read_count: Final = msgspec.json.Decoder(int | None).decode
_ENCODER: Final = msgspec.json.Encoder()


def maps_tables(answers: Iterable[Any], tokens: TokenColumn, common: Common, lenient: bool) -> dict[str, pa.Table]:
    """Return the five tables of maps by name. ``answers`` yields one ``structs.Map`` for each token of ``tokens``.

    If ``lenient`` is true, the structs come from the lenient mode and may have relationships of unknown types. The
    function sets the relationships of the structs to None after reading them, to free their memory. ``common`` has the
    values that are equal in all rows, by column.
    """
    transfers, maps = Transfers(), []
    for answer in answers:
        time_nodes = (answer.nodes or _NO_NODES).time_nodes or ()
        transfers.add(answer.relationships or (), time_nodes, lenient)
        answer.relationships = None  # most of the answer: freeing it while it is in the cache costs least
        maps.append(answer)
    nodes = [answer.nodes or _NO_NODES for answer in maps]
    clusters = [_largest_first(answer.clusters or ()) for answer in maps]
    return {
        "maps": _maps(maps, tokens, common),
        "map_nodes": _map_nodes(nodes, tokens, common),
        "grouped_transfers": _map_transfers(transfers, tokens, common),
        "clusters": _clusters(clusters, tokens, common),
        "cluster_members": _cluster_members(clusters, tokens, common),
    }


def _maps(answers: Sequence[Any], tokens: TokenColumn, common: Common) -> pa.Table:
    rows = [_map_row(answer) for answer in answers]
    columns: Columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["token_address"] = tokens.repeat([1] * len(rows))
    return assemble(TABLES["maps"], len(rows), common, columns)


def _map_row(answer: Any) -> Columns:
    supply, scores = answer.metrics.supply_stats, _read_scores(answer.metrics.scores)
    name = score_name(scores)
    other_scores = {key: scores[key] for key in sorted(scores) if key.endswith("_score") and key != name}
    return {
        "dt_update": answer.metadata.dt_update,
        **{share: figure_of(getattr(supply, share)) for share in _SHARES},
        "service_score": figure_of(scores.get(name or "", NULL)),
        **{figure: figure_of(scores.get(figure, NULL)) for figure in ("gini_index", "herfindahl_hirschman_index")},
        "nakamoto_coefficient": _read_count(scores.get("nakamoto_coefficient", NULL)),
        "other_scores": _ENCODER.encode(other_scores).decode() if other_scores else None,
    }


def _largest_first(clusters: Sequence[Any]) -> list[tuple[float | None, Any]]:
    """Return pairs (share, cluster), the largest share first. Clusters without a share come last."""
    shares = [figure_of(cluster.share) for cluster in clusters]
    return sorted(zip(shares, clusters, strict=True), key=lambda pair: float("inf") if pair[0] is None else -pair[0])


def _map_nodes(nodes: Sequence[Any], tokens: TokenColumn, common: Common) -> pa.Table:
    """Return the table ``map_nodes``: all top holders, then all magic nodes, then all time nodes.

    ``common`` has the values that are equal in all rows, by column.
    """
    windows = [map_nodes.time_nodes or () for map_nodes in nodes]
    top = [_ranked(map_nodes.top_holders or ()) for map_nodes in nodes]
    magic = [map_nodes.magic_nodes or () for map_nodes in nodes]
    kinds: dict[str, Sequence[Sequence[Any]]] = {"top_holder": top, "magic": magic, "time": windows}
    addresses = [node.address for of_answers in kinds.values() for group in of_answers for node in group]
    counts = [[len(group) for group in of_answers] for of_answers in kinds.values()]
    address_nodes = [node for of_answers in (top, magic) for group in of_answers for node in group]
    timed = sum(counts[2])
    columns = {
        "token_address": pa.concat_arrays([tokens.repeat(of_kind) for of_kind in counts]),
        "kind": [kind for kind, of_kind in zip(kinds, counts, strict=True) for _ in range(sum(of_kind))],
        "address": normalised(addresses),
        "is_shown_on_map": [node.is_shown_on_map for node in address_nodes] + [None] * timed,
        "time_node": [None] * len(address_nodes) + [number for count in counts[2] for number in range(1, count + 1)],
        **_holding_columns([node.holder_data for group in top for node in group], len(addresses) - sum(counts[0])),
        **_details_columns([node.address_details for node in address_nodes] + [None] * timed),
    }
    return assemble(TABLES["map_nodes"], len(addresses), common, columns)


def _map_transfers(transfers: Transfers, tokens: TokenColumn, common: Common) -> pa.Table:
    """Return the table ``grouped_transfers``. For each map, relationships outside time nodes come first.

    ``common`` has the values that are equal in all rows, by column.
    """
    windows = transfers.windows
    columns = transfers.columns() | {
        "token_address": tokens.repeat(transfers.counts),
        "time_node": pa.array(windows, mask=windows == 0),
    }
    return assemble(TABLES["grouped_transfers"], len(windows), common, columns)


def _clusters(clusters: Sequence[Sequence[tuple[float | None, Any]]], tokens: TokenColumn, common: Common) -> pa.Table:
    listed = [cluster for map_clusters in clusters for _, cluster in map_clusters]
    columns = {
        "token_address": tokens.repeat([len(map_clusters) for map_clusters in clusters]),
        "cluster_id": [number for map_clusters in clusters for number in range(1, len(map_clusters) + 1)],
        "share": [share for map_clusters in clusters for share, _ in map_clusters],
        "holder_count": integers_of([cluster.holder_count for cluster in listed]),
        "magic_node_count": integers_of([cluster.magic_node_count for cluster in listed]),
        **amounts_of("amount", texts_of([cluster.amount for cluster in listed])),
    }
    return assemble(TABLES["clusters"], len(listed), common, columns)


def _cluster_members(
    clusters: Sequence[Sequence[tuple[float | None, Any]]], tokens: TokenColumn, common: Common
) -> pa.Table:
    addresses: list[str] = []
    kinds: list[str] = []
    numbers: list[int] = []
    counts = []
    for map_clusters in clusters:
        start = len(addresses)
        for number, (_, cluster) in enumerate(map_clusters, 1):
            holders, magic = cluster.holders or [], cluster.magic_nodes or []
            addresses += holders
            addresses += magic
            kinds += ["holder"] * len(holders) + ["magic"] * len(magic)
            numbers += [number] * (len(holders) + len(magic))
        counts.append(len(addresses) - start)
    columns = {
        "token_address": tokens.repeat(counts),
        "cluster_id": numbers,
        "address": normalised(addresses),
        "kind": kinds,
    }
    return assemble(TABLES["cluster_members"], len(addresses), common, columns)
