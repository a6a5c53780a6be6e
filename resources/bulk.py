"""From the bytes of the large answers straight to Arrow tables, a column at a time.

The tables are those that ``contract.wire`` and ``normalise`` make of the same bytes, and so are the refusals: whatever
is not of the ordinary, current shape (older maps, other names of a field, unknown relationships, faults) goes their
way. Small answers (chains, tokens) always do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from contract import wire
from contract.chains import normalise_address
from contract.models import (
    GROUPED_TRANSFER,
    Address,
    AddressMetadata,
    Amount,
    ChainId,
    GroupedTransfer,
    Holder,
    Instant,
    Map,
    Relationship,
)
from contract.tables import AMOUNT_TYPE, DETAIL_COLUMNS, INSTANT_TYPE, TABLES, amount_columns, assemble
from contract.times import to_unix
from resources import normalise
from resources.shapes import read

Columns = dict[str, Any]
"""By name: an Arrow array or a sequence of values."""
Common = dict[str, pa.Scalar]
"""What all rows of a table share."""

_UNUSUAL: Final = (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError)
"""What the short way raises on anything that it leaves to the long one, which then says what is wrong, if anything."""
_SIMPLE_AMOUNT: Final = r"^-?[0-9]{1,19}(\.[0-9]{1,18})?$"
"""Numbers that the decimal column holds for sure. Arrow's cast takes others too, and wraps around unnoticed."""
_SIMPLE_INSTANT: Final = r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"
_LAST_SECOND: Final = to_unix(datetime(9999, 12, 31, 23, 59, 59))
_NOTHING: Final = SimpleNamespace(**dict.fromkeys(DETAIL_COLUMNS))
"""The details of an address without any."""

_amount: Final = TypeAdapter(Amount).validate_python
_instants: Final = TypeAdapter(list[Instant | None]).validate_python
_chain: Final = TypeAdapter(ChainId).validate_python
_token: Final = TypeAdapter(Address).validate_python


def map_tables(raw: bytes, chain: str, token_address: str, as_of: datetime) -> dict[str, pa.Table]:
    """``normalise.map_tables`` of a map's bytes. Raises ``wire.MalformedAnswer`` and ``normalise.BadAnswer``."""
    try:
        return _map_tables(read(raw, Map), _of_token(chain, token_address, as_of))
    except _UNUSUAL:
        return normalise.map_tables(wire.decode(raw, Map), chain, token_address, as_of)


def holder_rows(raw: bytes, chain: str, token_address: str, as_of: datetime) -> pa.Table:
    """``normalise.holder_rows`` of the bytes of a list of holders. Raises as ``map_tables`` does."""
    try:
        return _holder_rows(read(raw, list[Holder]), _of_token(chain, token_address, as_of))
    except _UNUSUAL:
        return normalise.holder_rows(wire.decode(raw, list[Holder]), chain, token_address, as_of)


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


class _Written(dict[str, str]):
    """Texts as a rule writes them; the rule is asked once for each distinct one."""

    def __init__(self, rule: Callable[[str], str] = normalise_address) -> None:
        self._rule = rule

    def __missing__(self, text: str) -> str:
        written = self[text] = self._rule(text)
        return written

    def all(self, texts: Iterable[str]) -> list[str]:
        return list(map(self.__getitem__, texts))


def _common(as_of: datetime, **texts: str) -> Common:
    return {"as_of": pa.scalar(as_of, INSTANT_TYPE)} | {name: pa.scalar(text) for name, text in texts.items()}


def _of_token(chain: str, token_address: str, as_of: datetime) -> Common:
    return _common(as_of, chain=chain, token_address=normalise_address(token_address))


def _map_tables(answer: Any, common: Common) -> dict[str, pa.Table]:
    nodes = answer.nodes or SimpleNamespace(top_holders=(), magic_nodes=(), time_nodes=())
    windows = nodes.time_nodes or ()
    clusters = answer.clusters or ()
    shares = _shares(cluster.share for cluster in clusters)
    ranking = sorted(range(len(clusters)), key=lambda place: -shares[place])
    largest_first = [clusters[place] for place in ranking]
    written = _Written()
    return {
        "maps": assemble(TABLES["maps"], 1, common, {name: [value] for name, value in _map_row(answer).items()}),
        "map_nodes": _map_nodes(nodes.top_holders, nodes.magic_nodes or (), windows, written, common),
        "grouped_transfers": _map_transfers(answer.relationships or (), windows, written, common),
        "clusters": _clusters(largest_first, [shares[place] for place in ranking], common),
        "cluster_members": _cluster_members(largest_first, written, common),
    }


def _map_row(answer: Any) -> Columns:
    supply, scores = answer.metrics.supply_stats, answer.metrics.scores
    return {
        "dt_update": answer.metadata.dt_update,
        "cexs": _measured(supply.cexs),
        "dexs": _measured(supply.dexs),
        "contracts": _measured(supply.contracts),
        "fresh_wallets": _measured(supply.fresh_wallets),
        "top_10_adjusted": _measured(supply.top_10_adjusted),
        "bundles": _measured(supply.bundles),
        "service_score": _measured(scores.service_score),
        "gini_index": _measured(scores.gini_index),
        "herfindahl_hirschman_index": _measured(scores.herfindahl_hirschman_index),
        "nakamoto_coefficient": scores.nakamoto_coefficient,
    }


def _map_nodes(
    top: Sequence[Any], magic: Sequence[Any], windows: Sequence[Any], written: _Written, common: Common
) -> pa.Table:
    ranked = sorted(top, key=lambda node: node.holder_data.rank)
    nodes = [*ranked, *magic]
    addresses = written.all(node.address for node in (*nodes, *windows))
    _refuse_twice(addresses[: len(ranked)])
    _refuse_twice(addresses[len(ranked) : len(nodes)])
    columns = {
        "kind": ["top_holder"] * len(ranked) + ["magic"] * len(magic) + ["time"] * len(windows),
        "address": addresses,
        "is_shown_on_map": [node.is_shown_on_map for node in nodes] + [None] * len(windows),
        "time_node": [None] * len(nodes) + [*range(1, len(windows) + 1)],
        **_holdings([node.holder_data for node in ranked], len(magic) + len(windows)),
        **_details([node.address_details for node in nodes] + [_NOTHING] * len(windows)),
    }
    return assemble(TABLES["map_nodes"], len(addresses), common, columns)


def _map_transfers(outside: Sequence[Any], windows: Sequence[Any], written: _Written, common: Common) -> pa.Table:
    relationships = [*outside]
    numbers: list[int | None] = [None] * len(outside)
    for number, node in enumerate(windows, 1):
        relationships += node.relationships
        numbers += [number] * len(node.relationships)
    columns = _transfers(relationships, written, numbers) | {"time_node": numbers}
    return assemble(TABLES["grouped_transfers"], len(relationships), common, columns)


def _clusters(clusters: Sequence[Any], shares: Sequence[float], common: Common) -> pa.Table:
    columns = {
        "cluster_id": range(1, len(clusters) + 1),
        "share": shares,
        "holder_count": [cluster.holder_count for cluster in clusters],
        "magic_node_count": [cluster.magic_node_count for cluster in clusters],
        **_amounts("amount", [cluster.amount for cluster in clusters]),
    }
    return assemble(TABLES["clusters"], len(clusters), common, columns)


def _cluster_members(clusters: Sequence[Any], written: _Written, common: Common) -> pa.Table:
    addresses: list[str] = []
    kinds: list[str] = []
    numbers: list[int] = []
    for number, cluster in enumerate(clusters, 1):
        addresses += written.all(cluster.holders)
        addresses += written.all(cluster.magic_nodes)
        kinds += ["holder"] * len(cluster.holders) + ["magic"] * len(cluster.magic_nodes)
        numbers += [number] * (len(cluster.holders) + len(cluster.magic_nodes))
    _refuse_twice(addresses)
    columns = {"cluster_id": numbers, "address": addresses, "kind": kinds}
    return assemble(TABLES["cluster_members"], len(addresses), common, columns)


def _holder_rows(answer: Sequence[Any], common: Common) -> pa.Table:
    ranked = sorted(answer, key=lambda holder: holder.holder_data.rank)
    addresses = _Written().all(holder.address for holder in ranked)
    _refuse_twice(addresses)
    columns = {
        "address": addresses,
        **_holdings([holder.holder_data for holder in ranked]),
        **_details([holder.address_details or _NOTHING for holder in ranked]),
    }
    return assemble(TABLES["holders"], len(ranked), common, columns)


def _subgraph_rows(told: Iterable[Any], common: Common) -> pa.Table:
    tokens = _Written(_token)
    seen: dict[Hashable, Any] = {}
    for relationship in told:
        token = relationship.data.token_key
        key = (relationship.from_address, relationship.to_address, token.chain, tokens[token.address])
        seen.setdefault(key, relationship)
    columns = _transfers([*seen.values()], _Written(), [None] * len(seen))
    return assemble(TABLES["subgraph_transfers"], len(seen), common, columns)


def _address_rows(answer: Sequence[Any], common: Common) -> pa.Table:
    addresses = _Written().all(item.address for item in answer)
    _refuse_twice(addresses)
    columns = {"address": addresses, **_details([item.address_details for item in answer])}
    return assemble(TABLES["addresses"], len(answer), common, columns)


def _transfers(relationships: Sequence[Any], written: _Written, windows: Sequence[int | None]) -> Columns:
    data = [relationship.data for relationship in relationships]
    tokens = [each.token_key for each in data]
    keys = {
        "from_address": written.all([relationship.from_address for relationship in relationships]),
        "to_address": written.all([relationship.to_address for relationship in relationships]),
        "transfer_chain": _mostly_one(_chain, [token.chain for token in tokens]),
        "transfer_token": _mostly_one(_token, [token.address for token in tokens]),
    }
    telling = [column for column in keys.values() if isinstance(column, list)]
    _refuse_twice([*zip(*telling, windows, strict=True)])
    return keys | {
        "rel_type": pa.repeat(GROUPED_TRANSFER, len(relationships)),
        "total_transfers": [each.total_transfers for each in data],
        "first_date": _dates([each.first_date for each in data]),
        "last_date": _dates([each.last_date for each in data]),
        **_amounts("total_value", [each.total_value for each in data]),
    }


def _mostly_one(rule: Callable[[str], str], texts: list[str]) -> list[str] | pa.Array:
    """The texts as the rule writes them; an array where all are the same, as the tokens of a map are."""
    different = set(texts)
    return pa.repeat(rule(different.pop()), len(texts)) if len(different) == 1 else _Written(rule).all(texts)


def _holdings(held: Sequence[Any], others: int = 0) -> Columns:
    """Columns of those who hold, with nulls for so many ``others`` after them."""
    nulls = [None] * others
    amounts = _amounts("amount", [each.amount for each in held])
    return {
        "rank": [each.rank for each in held] + nulls,
        "share": _shares(each.share for each in held) + nulls,
        **{name: pa.concat_arrays([array, pa.nulls(others, array.type)]) for name, array in amounts.items()},
    }


def _details(details: Sequence[Any]) -> Columns:
    columns: Columns = {name: [*map(attrgetter(name), details)] for name in DETAIL_COLUMNS}
    return columns | {"first_activity_date": _date_times(columns["first_activity_date"])}


def _number(text: bytes) -> float:
    """A JSON number. Raises ``ValueError`` where reading it as a decimal first might make a difference."""
    value = float(text)
    if value - value or not (value or text in (b"0", b"0.0")):
        raise ValueError(f"{text!r} is too large, too small or an unusual zero")
    return value


def _measured(raw: msgspec.Raw) -> float | None:
    text = bytes(raw)
    return None if text == b"null" else _number(text)


def _shares(raws: Iterable[msgspec.Raw]) -> list[float]:
    shares = [_number(bytes(raw)) for raw in raws]
    if shares and not (min(shares) >= 0 and max(shares) <= 1):
        raise ValueError("a share is not from 0 to 1")
    return shares


def _amounts(name: str, raws: Sequence[msgspec.Raw]) -> dict[str, pa.Array]:
    """``amount_columns`` of a column of JSON numbers."""
    texts = pa.array([*map(bytes, raws)], pa.string())
    simple = pc.match_substring_regex(texts, _SIMPLE_AMOUNT)
    decimals = (pc.if_else(simple, texts, None) if simple.false_count else texts).cast(AMOUNT_TYPE)
    exact = pa.nulls(len(raws), pa.string())
    if not simple.false_count:
        return {name: decimals, f"{name}_exact": exact}
    odd = pc.invert(simple)
    columns = [amount_columns(name, _amount(Decimal(text))) for text in texts.filter(odd).to_pylist()]
    rounded = pa.array([each[name] for each in columns], AMOUNT_TYPE)
    written = pa.array([each[f"{name}_exact"] for each in columns], pa.string())
    return {
        name: pc.replace_with_mask(decimals, odd, rounded),
        f"{name}_exact": pc.replace_with_mask(exact, odd, written),
    }


def _dates(seconds: Sequence[int]) -> pa.Array:
    """Instants of unix seconds."""
    array = pa.array(seconds, pa.int64())
    ends = pc.min_max(array).as_py()
    if seconds and not (ends["min"] >= 0 and ends["max"] <= _LAST_SECOND):
        raise ValueError("a date before 1970 or after 9999")
    return array.cast(pa.timestamp("s")).cast(INSTANT_TYPE)


def _date_times(texts: Sequence[str | None]) -> pa.Array:
    """Instants of ISO 8601 texts."""
    array = pa.array(texts, pa.string())
    if pc.match_substring_regex(array, _SIMPLE_INSTANT).false_count:
        return pa.array(_instants(texts), INSTANT_TYPE)
    return array.cast(pa.timestamp("us", "UTC")).cast(INSTANT_TYPE)


def _refuse_twice(keys: Sequence[Hashable]) -> None:
    if len(set(keys)) < len(keys):
        raise ValueError("something stands in the answer twice")
