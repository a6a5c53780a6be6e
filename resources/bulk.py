"""From the bytes of the large answers straight to Arrow tables, a column at a time.

The tables are those that ``contract.wire`` and ``normalise`` make of the same bytes, and so are the refusals: whatever
is not of the ordinary, current shape (older maps, other names of a field, unknown relationships, faults) goes their
way. Small answers (chains, tokens) always do.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from contract import wire
from contract.chains import normalise_address
from contract.models import (
    AddressMetadata,
    GroupedTransfer,
    Holder,
    Map,
    Relationship,
)
from contract.tables import DETAIL_COLUMNS, INSTANT_TYPE, TABLES, assemble
from resources import normalise
from resources.columns import amounts_of, date_times_of, measured, refuse_twice, shares_of, texts_of, written
from resources.links import Links
from resources.shapes import read

Columns = dict[str, Any]
"""By name: an Arrow array or a sequence of values."""
Common = dict[str, pa.Scalar]
"""What all rows of a table share."""

_UNUSUAL: Final = (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError)
"""What the short way raises on anything that it leaves to the long one, which then says what is wrong, if anything."""
_NOTHING: Final = SimpleNamespace(**dict.fromkeys(DETAIL_COLUMNS))
"""The details of an address without any."""
_DETAILS: Final = attrgetter(*DETAIL_COLUMNS)
_NO_NODES: Final = SimpleNamespace(top_holders=(), magic_nodes=(), time_nodes=())


def map_tables(
    raws: Sequence[bytes], chain: str, token_addresses: Sequence[str], as_of: datetime
) -> dict[str, pa.Table]:
    """``normalise.map_tables`` of the bytes of some tokens' maps, in one set of tables.

    Rows of a token stand in the order of its own tables; those of several tokens may be mixed. Many maps at once cost
    less than one by one. Raises ``wire.MalformedAnswer`` and ``normalise.BadAnswer`` where one of them can't be read.
    """
    try:
        return _map_tables(raws, _Owners(token_addresses), _common(as_of, chain=chain))
    except _UNUSUAL:
        if len(raws) > 1:
            alone = [map_tables([raw], chain, [own], as_of) for raw, own in zip(raws, token_addresses, strict=True)]
            return {name: pa.concat_tables(tables[name] for tables in alone) for name in alone[0]}
        return normalise.map_tables(wire.decode(raws[0], Map), chain, token_addresses[0], as_of)


def holder_rows(raws: Sequence[bytes], chain: str, token_addresses: Sequence[str], as_of: datetime) -> pa.Table:
    """``normalise.holder_rows`` of the bytes of some tokens' lists of holders, as one table; see ``map_tables``."""
    try:
        answers = [read(raw, list[Holder]) for raw in raws]
        return _holder_rows(answers, _Owners(token_addresses), _common(as_of, chain=chain))
    except _UNUSUAL:
        if len(raws) > 1:
            pairs = zip(raws, token_addresses, strict=True)
            return pa.concat_tables(holder_rows([raw], chain, [own], as_of) for raw, own in pairs)
        return normalise.holder_rows(wire.decode(raws[0], list[Holder]), chain, token_addresses[0], as_of)


def subgraph_rows(raws: Sequence[bytes], address_set: str, chain: str, as_of: datetime) -> pa.Table:
    """``normalise.subgraph_rows`` of the bytes of several answers, as of one; what is told twice is one row.

    Raises as ``map_tables`` does.
    """
    try:
        structs = [relationship for raw in raws for relationship in read(raw, list[Relationship])]
        return _subgraph_rows(structs, _common(chain=chain, as_of=as_of, address_set=address_set))
    except _UNUSUAL:
        answers = [wire.decode(raw, list[Relationship]) for raw in raws]
        told = distinct(relationship for answer in answers for relationship in answer)
        return normalise.subgraph_rows(address_set, told, chain, as_of)


def address_rows(raw: bytes, chain: str, as_of: datetime) -> pa.Table:
    """``normalise.address_rows`` of the bytes of addresses' metadata. Raises as ``map_tables`` does."""
    try:
        return _address_rows(read(raw, list[AddressMetadata]), _common(chain=chain, as_of=as_of))
    except _UNUSUAL:
        return normalise.address_rows(wire.decode(raw, list[AddressMetadata]), chain, as_of)


def distinct(relationships: Iterable[Relationship]) -> list[Relationship]:
    """Relationships without those that several answers told of, in the order in which they came."""
    seen: dict[tuple[str, ...], Relationship] = {}
    for relationship in relationships:
        ends = (relationship.from_address, relationship.to_address, relationship.rel_type)
        if isinstance(relationship, GroupedTransfer):
            token = relationship.data.token_key
            key: tuple[str, ...] = (*ends, token.chain, token.address)
        else:
            key = (*ends, wire.encode(relationship.data).decode())
        seen.setdefault(key, relationship)
    return list(seen.values())


class _Owners:
    """The tokens whose answers are read together, in the order of the answers."""

    def __init__(self, token_addresses: Sequence[str]) -> None:
        self._tokens = pa.array([normalise_address(address) for address in token_addresses], pa.string())

    def of(self, counts: Sequence[int]) -> pa.Array:
        """The column ``token_address`` of so many rows of each answer."""
        if len(counts) == 1:
            return pa.repeat(self._tokens[0], counts[0])
        return self._tokens.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


def _common(as_of: datetime, **texts: str) -> Common:
    return {"as_of": pa.scalar(as_of, INSTANT_TYPE)} | {name: pa.scalar(text) for name, text in texts.items()}


def _map_tables(raws: Sequence[bytes], owners: _Owners, common: Common) -> dict[str, pa.Table]:
    links = Links()
    answers = []
    for raw in raws:
        answer = read(raw, Map)
        links.add(answer.relationships or (), (answer.nodes or _NO_NODES).time_nodes or ())
        answer.relationships = None  # the most of it: what is dropped while it is in the cache costs least
        answers.append(answer)
    nodes = [answer.nodes or _NO_NODES for answer in answers]
    clusters = [_largest_first(answer.clusters or ()) for answer in answers]
    return {
        "maps": _maps(answers, owners, common),
        "map_nodes": _map_nodes(nodes, owners, common),
        "grouped_transfers": _map_transfers(links, owners, common),
        "clusters": _clusters(clusters, owners, common),
        "cluster_members": _cluster_members(clusters, owners, common),
    }


def _maps(answers: Sequence[Any], owners: _Owners, common: Common) -> pa.Table:
    rows = [_map_row(answer) for answer in answers]
    columns: Columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["token_address"] = owners.of([1] * len(rows))
    return assemble(TABLES["maps"], len(rows), common, columns)


def _largest_first(clusters: Sequence[Any]) -> list[tuple[float, Any]]:
    """Clusters with their shares."""
    shares = shares_of(cluster.share for cluster in clusters)
    return sorted(zip(shares, clusters, strict=True), key=lambda one: -one[0])


def _map_row(answer: Any) -> Columns:
    supply, scores = answer.metrics.supply_stats, answer.metrics.scores
    return {
        "dt_update": answer.metadata.dt_update,
        "cexs": measured(supply.cexs),
        "dexs": measured(supply.dexs),
        "contracts": measured(supply.contracts),
        "fresh_wallets": measured(supply.fresh_wallets),
        "top_10_adjusted": measured(supply.top_10_adjusted),
        "bundles": measured(supply.bundles),
        "service_score": measured(scores.service_score),
        "gini_index": measured(scores.gini_index),
        "herfindahl_hirschman_index": measured(scores.herfindahl_hirschman_index),
        "nakamoto_coefficient": scores.nakamoto_coefficient,
    }


def _map_nodes(nodes: Sequence[Any], owners: _Owners, common: Common) -> pa.Table:
    """All top holders, then all magic nodes, then all time nodes."""
    windows = [own.time_nodes or () for own in nodes]
    top = [_ranked(own.top_holders) for own in nodes]
    magic = [own.magic_nodes or () for own in nodes]
    kinds: dict[str, Sequence[Sequence[Any]]] = {"top_holder": top, "magic": magic, "time": windows}
    addresses: list[str] = []
    for kind, of_answers in kinds.items():
        for own in of_answers:
            fresh = written([node.address for node in own])
            if kind != "time":
                refuse_twice(fresh)
            addresses += fresh
    counts = [[len(own) for own in of_answers] for of_answers in kinds.values()]
    known = [node for of_answers in (top, magic) for own in of_answers for node in own]
    timed = sum(counts[2])
    columns = {
        "token_address": pa.concat_arrays([owners.of(of_kind) for of_kind in counts]),
        "kind": [kind for kind, of_kind in zip(kinds, counts, strict=True) for _ in range(sum(of_kind))],
        "address": addresses,
        "is_shown_on_map": [node.is_shown_on_map for node in known] + [None] * timed,
        "time_node": [None] * len(known) + [number for count in counts[2] for number in range(1, count + 1)],
        **_holdings([node.holder_data for own in top for node in own], len(addresses) - sum(counts[0])),
        **_details([node.address_details for node in known] + [_NOTHING] * timed),
    }
    return assemble(TABLES["map_nodes"], len(addresses), common, columns)


def _map_transfers(links: Links, owners: _Owners, common: Common) -> pa.Table:
    """Of each answer all relationships outside time nodes, then those of its time nodes."""
    windows = links.windows
    columns = links.columns() | {
        "token_address": owners.of(links.counts),
        "time_node": pa.array(windows, mask=windows == 0),
    }
    return assemble(TABLES["grouped_transfers"], len(windows), common, columns)


def _clusters(clusters: Sequence[Sequence[tuple[float, Any]]], owners: _Owners, common: Common) -> pa.Table:
    told = [cluster for own in clusters for _, cluster in own]
    columns = {
        "token_address": owners.of([len(own) for own in clusters]),
        "cluster_id": [number for own in clusters for number in range(1, len(own) + 1)],
        "share": [share for own in clusters for share, _ in own],
        "holder_count": [cluster.holder_count for cluster in told],
        "magic_node_count": [cluster.magic_node_count for cluster in told],
        **amounts_of("amount", texts_of([cluster.amount for cluster in told])),
    }
    return assemble(TABLES["clusters"], len(told), common, columns)


def _cluster_members(clusters: Sequence[Sequence[tuple[float, Any]]], owners: _Owners, common: Common) -> pa.Table:
    addresses: list[str] = []
    kinds: list[str] = []
    numbers: list[int] = []
    counts = []
    for own in clusters:
        before = len(addresses)
        for number, (_, cluster) in enumerate(own, 1):
            addresses += written(cluster.holders)
            addresses += written(cluster.magic_nodes)
            kinds += ["holder"] * len(cluster.holders) + ["magic"] * len(cluster.magic_nodes)
            numbers += [number] * (len(cluster.holders) + len(cluster.magic_nodes))
        refuse_twice(addresses[before:])
        counts.append(len(addresses) - before)
    columns = {"token_address": owners.of(counts), "cluster_id": numbers, "address": addresses, "kind": kinds}
    return assemble(TABLES["cluster_members"], len(addresses), common, columns)


def _ranked(holders: Sequence[Any]) -> list[Any]:
    return sorted(holders, key=lambda holder: holder.holder_data.rank)


def _holder_rows(answers: Sequence[Sequence[Any]], owners: _Owners, common: Common) -> pa.Table:
    addresses: list[str] = []
    for answer in answers:
        fresh = written([holder.address for holder in _ranked(answer)])
        refuse_twice(fresh)
        addresses += fresh
    ranked = [holder for answer in answers for holder in _ranked(answer)]
    columns = {
        "token_address": owners.of([len(answer) for answer in answers]),
        "address": addresses,
        **_holdings([holder.holder_data for holder in ranked]),
        **_details([holder.address_details or _NOTHING for holder in ranked]),
    }
    return assemble(TABLES["holders"], len(ranked), common, columns)


def _subgraph_rows(told: Iterable[Any], common: Common) -> pa.Table:
    seen: dict[Hashable, Any] = {}
    for relationship in told:
        ends = (relationship.from_address, relationship.to_address, relationship.data.token_key)
        seen.setdefault(tuple(map(bytes, ends)), relationship)
    links = Links()
    links.add([*seen.values()])
    return assemble(TABLES["subgraph_transfers"], len(seen), common, links.columns())


def _address_rows(answer: Sequence[Any], common: Common) -> pa.Table:
    addresses = written([item.address for item in answer])
    refuse_twice(addresses)
    columns = {"address": addresses, **_details([item.address_details for item in answer])}
    return assemble(TABLES["addresses"], len(answer), common, columns)


def _holdings(held: Sequence[Any], others: int = 0) -> Columns:
    """Columns of those who hold, with nulls for so many ``others`` after them."""
    nulls = [None] * others
    amounts = amounts_of("amount", texts_of([each.amount for each in held]))
    return {
        "rank": [each.rank for each in held] + nulls,
        "share": shares_of(each.share for each in held) + nulls,
        **{name: pa.concat_arrays([array, pa.nulls(others, array.type)]) for name, array in amounts.items()},
    }


def _details(details: Sequence[Any]) -> Columns:
    columns: Columns = dict.fromkeys(DETAIL_COLUMNS, ())
    if details:
        columns.update(zip(DETAIL_COLUMNS, zip(*map(_DETAILS, details), strict=True), strict=True))
    return columns | {"first_activity_date": date_times_of(columns["first_activity_date"])}
