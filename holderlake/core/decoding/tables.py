"""Arrow tables from decoded structs: holders, addresses, tokens, chains, relationships and the five tables of maps.

``common`` has the values that are equal in all rows, by column. A map without nodes, relationships or clusters has no
rows in the tables of these parts. Time nodes are numbered from 1 in the answer's order; the column ``time_node`` of a
relationship is the number of its time node. Clusters are numbered from 1, the largest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Raw
from pydantic import BaseModel

from holderlake.core.contract.chains import normalise_address
from holderlake.core.contract.fields import AnswerField
from holderlake.core.contract.models import Cluster, Holder, HolderNode, Map, Node, Nodes, Scores, TimeNode, score_name
from holderlake.core.contract.tables import TABLES, assemble
from holderlake.core.decoding.columns import amounts_of, date_times_of, figure_of, integers_of, normalised, texts_of
from holderlake.core.decoding.structs import NULL, empty, stored_fields
from holderlake.core.decoding.transfers import Transfers

Columns = dict[str, Any]
"""Columns by name: Arrow arrays or sequences of values."""
Common = dict[str, pa.Scalar]
"""Values that all rows of a table share, by column."""


class TokenColumn:
    """Builder of the column ``token_address``. ``token_addresses[i]`` is the token of the i-th answer."""

    def __init__(self, token_addresses: Sequence[str]) -> None:
        self._tokens = pa.array([normalise_address(address) for address in token_addresses], pa.string())

    def repeat(self, counts: Sequence[int]) -> pa.Array:
        """Return an Arrow array that repeats the token of the i-th answer ``counts[i]`` times."""
        if len(counts) == 1:
            return pa.repeat(self._tokens[0], counts[0])
        return self._tokens.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


def rows_of(
    table: str, model: type[BaseModel], items: Sequence[Any], common: Common, columns: Columns | None = None
) -> pa.Table:
    """Return a table with one row for each struct of a model in ``items``, in order, with further ``columns``."""
    return assemble(TABLES[table], len(items), common, {**columns_of(model, items), **(columns or {})})


def columns_of(model: type[BaseModel], items: Sequence[Any]) -> Columns:
    """Return the columns of the stored fields of a model: a row for each struct in ``items``.

    The fields of an object are columns of its parent's row, and null where the object is missing.
    """
    columns: Columns = {}
    for field in stored_fields(model):
        if field.kind == "object" and field.model is not None:
            columns |= _columns_of_objects(field.model, _values(field, items))
        elif field.kind in _COLUMNS:
            columns |= _COLUMNS[field.kind](field.column, _values(field, items))
    return columns


def _columns_of_objects(model: type[BaseModel], objects: Sequence[Any]) -> Columns:
    present = [value for value in objects if value is not None]
    if len(present) == len(objects):
        return columns_of(model, present)
    places = np.cumsum([value is not None for value in objects]) - 1
    indices = pa.array(places, mask=np.array([value is None for value in objects]))
    return {name: column.take(indices) for name, column in columns_of(model, present).items()}


def _values(field: AnswerField, items: Sequence[Any]) -> list[Any]:
    values = [*map(attrgetter(field.name), items)]
    for older_name in () if field.is_essential else field.names[1:]:
        older_values = map(attrgetter(older_name), items)
        values = [value or older for value, older in zip(values, older_values, strict=True)]
    return values


_COLUMNS: Final[dict[str, Callable[[str, list[Any]], Columns]]] = {
    "text": lambda name, values: {name: pa.array(values, pa.string())},
    "flag": lambda name, values: {name: pa.array(values, pa.bool_())},
    "address": lambda name, values: {name: pa.array(normalised(values), pa.string())},
    "integer": lambda name, values: {name: integers_of(values)},
    "figure": lambda name, values: {name: pa.array([*map(figure_of, values)], pa.float64())},
    "instant": lambda name, values: {name: date_times_of(values)},
    "amount": lambda name, values: amounts_of(name, texts_of(values)),
}
"""Functions (column's name, values) that return the columns of a field, by its kind."""


def holders_table(answers: Sequence[Sequence[Any]], tokens: TokenColumn, common: Common) -> pa.Table:
    """Return the table ``holders``, for each token sorted by rank. ``answers[i]`` are the holders of the i-th token."""
    listed = [holder for answer in answers for holder in _ranked(answer)]
    token_column = {"token_address": tokens.repeat([len(answer) for answer in answers])}
    return rows_of("holders", Holder, listed, common, token_column)


def _ranked(holders: Sequence[Any]) -> list[Any]:
    """Return holders sorted by rank; holders without a rank come last."""
    try:
        return sorted(holders, key=lambda holder: holder.holder_data.rank)
    except (AttributeError, TypeError):
        ranks = [holder.holder_data and holder.holder_data.rank for holder in holders]
        places = sorted(range(len(holders)), key=lambda place: (ranks[place] is None, ranks[place] or 0))
        return [holders[place] for place in places]


_NO_NODES: Final = empty(Nodes)
_read_scores: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_SCORES: Final[dict[str, Callable[[Raw], Any]]] = {
    "figure": figure_of,
    "integer": msgspec.json.Decoder(int | None).decode,
}
_ENCODER: Final = msgspec.json.Encoder()


def maps_tables(answers: Iterable[Any], tokens: TokenColumn, common: Common, lenient: bool) -> dict[str, pa.Table]:
    """Return the five tables of maps by name. ``answers`` yields one ``structs.Map`` for each token of ``tokens``.

    If ``lenient`` is true, the structs come from the lenient mode and may have relationships of unknown types. The
    function sets the relationships of the structs to None after reading them, to free their memory.
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
    rows = [_score_row(answer) for answer in answers]
    columns: Columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["token_address"] = tokens.repeat([1] * len(rows))
    return rows_of("maps", Map, answers, common, columns)


def _score_row(answer: Any) -> Columns:
    scores = _read_scores(answer.metrics.scores)
    name = score_name(scores)
    other_scores = {key: scores[key] for key in sorted(scores) if key.endswith("_score") and key != name}
    scores["service_score"] = scores.get(name or "", NULL)
    return {
        **{field.column: _SCORES[field.kind](scores.get(field.name, NULL)) for field in stored_fields(Scores)},
        "other_scores": _ENCODER.encode(other_scores).decode() if other_scores else None,
    }


def _largest_first(clusters: Sequence[Any]) -> list[Any]:
    """Return clusters, the largest share first. Clusters without a share come last."""
    return sorted(clusters, key=lambda cluster: float("inf") if cluster.share == NULL else -float(bytes(cluster.share)))


def _map_nodes(nodes: Sequence[Any], tokens: TokenColumn, common: Common) -> pa.Table:
    """Return the table ``map_nodes``: all top holders, then all magic nodes, then all time nodes."""
    windows = [map_nodes.time_nodes or () for map_nodes in nodes]
    kinds: dict[str, tuple[type[BaseModel], Sequence[Sequence[Any]]]] = {
        "top_holder": (HolderNode, [_ranked(map_nodes.top_holders or ()) for map_nodes in nodes]),
        "magic": (Node, [map_nodes.magic_nodes or () for map_nodes in nodes]),
        "time": (TimeNode, windows),
    }
    counts = [[*map(len, of_maps)] for _, of_maps in kinds.values()]
    sums = [*map(sum, counts)]
    of_kinds = [columns_of(model, [node for of_map in of_maps for node in of_map]) for model, of_maps in kinds.values()]
    numbers = [number for count in counts[2] for number in range(1, count + 1)]
    columns: Columns = {
        "token_address": pa.concat_arrays([tokens.repeat(count) for count in counts]),
        "kind": pa.concat_arrays([pa.repeat(kind, size) for kind, size in zip(kinds, sums, strict=True)]),
        "time_node": [None] * (sums[0] + sums[1]) + numbers,
    }
    for name, column in of_kinds[0].items():
        arrays = (part.get(name, pa.nulls(size, column.type)) for part, size in zip(of_kinds, sums, strict=True))
        columns[name] = pa.concat_arrays(arrays)
    return assemble(TABLES["map_nodes"], sum(sums), common, columns)


def _map_transfers(transfers: Transfers, tokens: TokenColumn, common: Common) -> pa.Table:
    """Return the table ``grouped_transfers``. For each map, relationships outside time nodes come first."""
    windows = transfers.windows
    columns = transfers.columns() | {
        "token_address": tokens.repeat(transfers.counts),
        "time_node": pa.array(windows, mask=windows == 0),
    }
    return assemble(TABLES["grouped_transfers"], len(windows), common, columns)


def _clusters(clusters: Sequence[Sequence[Any]], tokens: TokenColumn, common: Common) -> pa.Table:
    columns = {
        "token_address": tokens.repeat([len(map_clusters) for map_clusters in clusters]),
        "cluster_id": [number for map_clusters in clusters for number in range(1, len(map_clusters) + 1)],
    }
    return rows_of(
        "clusters", Cluster, [cluster for map_clusters in clusters for cluster in map_clusters], common, columns
    )


def _cluster_members(clusters: Sequence[Sequence[Any]], tokens: TokenColumn, common: Common) -> pa.Table:
    addresses: list[str] = []
    kinds: list[str] = []
    numbers: list[int] = []
    counts = []
    for map_clusters in clusters:
        start = len(addresses)
        for number, cluster in enumerate(map_clusters, 1):
            for kind, members in (("holder", cluster.holders or ()), ("magic", cluster.magic_nodes or ())):
                addresses += members
                kinds += [kind] * len(members)
                numbers += [number] * len(members)
        counts.append(len(addresses) - start)
    columns = {"token_address": tokens.repeat(counts), "cluster_id": numbers}
    columns |= {"address": normalised(addresses), "kind": kinds}
    return assemble(TABLES["cluster_members"], len(addresses), common, columns)
