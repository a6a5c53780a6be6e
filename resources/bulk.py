"""From the bytes of the large answers straight to Arrow tables, a column at a time.

The tables are those that ``contract.wire`` and ``normalise`` make of the same bytes, and so are the refusals: whatever
is not of the ordinary, current shape (older maps, other names of a field, unknown relationships, faults) goes their
way. Small answers (chains, tokens) always do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
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
Integers = npt.NDArray[np.int64]

_UNUSUAL: Final = (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError)
"""What the short way raises on anything that it leaves to the long one, which then says what is wrong, if anything."""
_SIMPLE_AMOUNT: Final = r"^-?[0-9]{1,19}(\.[0-9]{1,18})?$"
"""Numbers that the decimal column holds for sure. Arrow's cast takes others too, and wraps around unnoticed."""
_SHORT_AMOUNT: Final = 19
"""Digits, a point and a sign in so few characters are an amount of that form."""
_SIMPLE_INSTANT: Final = r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"
_LAST_SECOND: Final = to_unix(datetime(9999, 12, 31, 23, 59, 59))
_NOTHING: Final = SimpleNamespace(**dict.fromkeys(DETAIL_COLUMNS))
"""The details of an address without any."""
_NO_CODES: Final = np.empty(0, np.int64)
_LINK_KEYS: Final = {
    "from_address": "address",
    "to_address": "address",
    "transfer_chain": "transfer_chain",
    "transfer_token": "transfer_token",
}
"""What tells relationships of an answer apart, and whose texts each part is."""
_NO_NODES: Final = SimpleNamespace(top_holders=(), magic_nodes=(), time_nodes=())

_amount: Final = TypeAdapter(Amount).validate_python
_instants: Final = TypeAdapter(list[Instant | None]).validate_python
_chain: Final = TypeAdapter(ChainId).validate_python
_token: Final = TypeAdapter(Address).validate_python


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


class _Written(dict[str, str]):
    """Texts as a rule writes them; the rule is asked once for each distinct one."""

    def __init__(self, rule: Callable[[str], str] = normalise_address) -> None:
        self._rule = rule

    def __missing__(self, text: str) -> str:
        written = self[text] = self._rule(text)
        return written

    def all(self, texts: Iterable[str]) -> list[str]:
        return list(map(self.__getitem__, texts))


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
    links = _Links()
    answers = []
    for raw in raws:
        answer = read(raw, Map)
        links.add(answer.relationships or (), (answer.nodes or _NO_NODES).time_nodes or ())
        answer.relationships = None  # the most of it: what is dropped while it is in the cache costs least
        answers.append(answer)
    nodes = [answer.nodes or _NO_NODES for answer in answers]
    clusters = [_largest_first(answer.clusters or ()) for answer in answers]
    written = _Written()
    return {
        "maps": _maps(answers, owners, common),
        "map_nodes": _map_nodes(nodes, owners, written, common),
        "grouped_transfers": _map_transfers(links, owners, common),
        "clusters": _clusters(clusters, owners, common),
        "cluster_members": _cluster_members(clusters, owners, written, common),
    }


def _maps(answers: Sequence[Any], owners: _Owners, common: Common) -> pa.Table:
    rows = [_map_row(answer) for answer in answers]
    columns: Columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["token_address"] = owners.of([1] * len(rows))
    return assemble(TABLES["maps"], len(rows), common, columns)


def _largest_first(clusters: Sequence[Any]) -> list[tuple[float, Any]]:
    """Clusters with their shares."""
    shares = _shares(cluster.share for cluster in clusters)
    return sorted(zip(shares, clusters, strict=True), key=lambda one: -one[0])


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


def _map_nodes(nodes: Sequence[Any], owners: _Owners, written: _Written, common: Common) -> pa.Table:
    """All top holders, then all magic nodes, then all time nodes."""
    windows = [own.time_nodes or () for own in nodes]
    top = [_ranked(own.top_holders) for own in nodes]
    magic = [own.magic_nodes or () for own in nodes]
    kinds: dict[str, Sequence[Sequence[Any]]] = {"top_holder": top, "magic": magic, "time": windows}
    addresses: list[str] = []
    for kind, of_answers in kinds.items():
        for own in of_answers:
            fresh = written.all([node.address for node in own])
            if kind != "time":
                _refuse_twice(fresh)
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


def _map_transfers(links: _Links, owners: _Owners, common: Common) -> pa.Table:
    """Of each answer all relationships outside time nodes, then those of its time nodes."""
    windows = np.concatenate([*links.windows, _NO_CODES])
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
        **_amounts("amount", [bytes(cluster.amount) for cluster in told]),
    }
    return assemble(TABLES["clusters"], len(told), common, columns)


def _cluster_members(
    clusters: Sequence[Sequence[tuple[float, Any]]], owners: _Owners, written: _Written, common: Common
) -> pa.Table:
    addresses: list[str] = []
    kinds: list[str] = []
    numbers: list[int] = []
    counts = []
    for own in clusters:
        before = len(addresses)
        for number, (_, cluster) in enumerate(own, 1):
            addresses += written.all(cluster.holders)
            addresses += written.all(cluster.magic_nodes)
            kinds += ["holder"] * len(cluster.holders) + ["magic"] * len(cluster.magic_nodes)
            numbers += [number] * (len(cluster.holders) + len(cluster.magic_nodes))
        _refuse_twice(addresses[before:])
        counts.append(len(addresses) - before)
    columns = {"token_address": owners.of(counts), "cluster_id": numbers, "address": addresses, "kind": kinds}
    return assemble(TABLES["cluster_members"], len(addresses), common, columns)


def _ranked(holders: Sequence[Any]) -> list[Any]:
    return sorted(holders, key=lambda holder: holder.holder_data.rank)


def _holder_rows(answers: Sequence[Sequence[Any]], owners: _Owners, common: Common) -> pa.Table:
    written = _Written()
    addresses: list[str] = []
    for answer in answers:
        fresh = written.all([holder.address for holder in _ranked(answer)])
        _refuse_twice(fresh)
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
    tokens = _Written(_token)
    seen: dict[Hashable, Any] = {}
    for relationship in told:
        token = relationship.data.token_key
        key = (relationship.from_address, relationship.to_address, token.chain, tokens[token.address])
        seen.setdefault(key, relationship)
    links = _Links()
    links.add([*seen.values()])
    return assemble(TABLES["subgraph_transfers"], len(seen), common, links.columns())


def _address_rows(answer: Sequence[Any], common: Common) -> pa.Table:
    addresses = _Written().all(item.address for item in answer)
    _refuse_twice(addresses)
    columns = {"address": addresses, **_details([item.address_details for item in answer])}
    return assemble(TABLES["addresses"], len(answer), common, columns)


class _Codes(dict[str, int]):
    """Numbers of texts as a rule writes them: the same for texts that it writes alike, in the order of their coming."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        self._rule = rule
        self._of_written: dict[str, int] = {}

    def __missing__(self, text: str) -> int:
        code = self[text] = self._of_written.setdefault(self._rule(text), len(self._of_written))
        return code

    def of(self, texts: list[str]) -> Integers:
        """The numbers of texts."""
        if texts and texts.count(texts[0]) == len(texts):  # as the tokens of a map's relationships often are
            return np.full(len(texts), self[texts[0]])
        return np.fromiter(map(self.__getitem__, texts), np.int64, len(texts))

    def array(self, codes: Sequence[Integers]) -> pa.Array:
        """The texts behind numbers."""
        return pa.array([*self._of_written], pa.string()).take(pa.array(np.concatenate([*codes, _NO_CODES])))


class _Links:
    """The relationships of some answers, column by column: what they were read from may go when they are added."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        """Of each answer."""
        self.windows: list[Integers] = []
        """The number of each one's time node; 0 outside of them."""
        self._books = {
            "address": _Codes(normalise_address),
            "transfer_chain": _Codes(_chain),
            "transfer_token": _Codes(_token),
        }
        self._keys: dict[str, list[Integers]] = {name: [] for name in _LINK_KEYS}
        self._numbers: dict[str, list[Integers]] = {"total_transfers": [], "first_date": [], "last_date": []}
        self._values: list[bytes] = []

    def add(self, told: Sequence[Any], time_nodes: Sequence[Any] = ()) -> None:
        """Adds an answer's. Raises ``ValueError`` where one stands there twice."""
        groups = [told, *(node.relationships for node in time_nodes)]
        links = [link for group in groups for link in group]
        data = [link.data for link in links]
        tokens = [each.token_key for each in data]
        windows = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        keys = {
            "from_address": self._books["address"].of([link.from_address for link in links]),
            "to_address": self._books["address"].of([link.to_address for link in links]),
            "transfer_chain": self._books["transfer_chain"].of([token.chain for token in tokens]),
            "transfer_token": self._books["transfer_token"].of([token.address for token in tokens]),
        }
        _refuse_twice_coded({"window": windows} | keys)
        for name, codes in keys.items():
            self._keys[name].append(codes)
        for name, known in self._numbers.items():
            known.append(np.fromiter(map(attrgetter(name), data), np.int64, len(data)))
        self._values += [bytes(each.total_value) for each in data]
        self.windows.append(windows)
        self.counts.append(len(links))

    def columns(self) -> Columns:
        """All columns but the token and the time node that they stand under."""
        texts = {name: self._books[_LINK_KEYS[name]].array(codes) for name, codes in self._keys.items()}
        numbers = {name: pa.array(np.concatenate([*known, _NO_CODES])) for name, known in self._numbers.items()}
        return texts | {
            "rel_type": pa.repeat(GROUPED_TRANSFER, len(self._values)),
            "total_transfers": numbers["total_transfers"],
            "first_date": _dates(numbers["first_date"]),
            "last_date": _dates(numbers["last_date"]),
            **_amounts("total_value", self._values),
        }


def _holdings(held: Sequence[Any], others: int = 0) -> Columns:
    """Columns of those who hold, with nulls for so many ``others`` after them."""
    nulls = [None] * others
    amounts = _amounts("amount", [bytes(each.amount) for each in held])
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


def _amounts(name: str, numbers: Sequence[bytes]) -> dict[str, pa.Array]:
    """``amount_columns`` of a column of JSON numbers."""
    texts = pa.array(numbers, pa.string())
    simple = _are_simple(texts)
    decimals = (pc.if_else(simple, texts, None) if simple.false_count else texts).cast(AMOUNT_TYPE)
    exact = pa.nulls(len(numbers), pa.string())
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


def _are_simple(texts: pa.Array) -> pa.BooleanArray:
    """Which amounts are of the form that the decimal column holds for sure; most are short, which is told at once."""
    characters = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    plain = len(characters) and characters.min() >= ord("-") and characters.max() <= ord("9")
    if plain and pc.max(pc.binary_length(texts)).as_py() <= _SHORT_AMOUNT:
        return pa.repeat(True, len(texts))
    return pc.match_substring_regex(texts, _SIMPLE_AMOUNT)


def _dates(seconds: pa.Array) -> pa.Array:
    """Instants of unix seconds."""
    ends = pc.min_max(seconds).as_py()
    if len(seconds) and not (ends["min"] >= 0 and ends["max"] <= _LAST_SECOND):
        raise ValueError("a date before 1970 or after 9999")
    return seconds.cast(pa.timestamp("s")).cast(INSTANT_TYPE)


def _date_times(texts: Sequence[str | None]) -> pa.Array:
    """Instants of ISO 8601 texts."""
    array = pa.array(texts, pa.string())
    if pc.match_substring_regex(array, _SIMPLE_INSTANT).false_count:
        return pa.array(_instants(texts), INSTANT_TYPE)
    return array.cast(pa.timestamp("us", "UTC")).cast(INSTANT_TYPE)


def _refuse_twice(keys: Sequence[Hashable]) -> None:
    if len(set(keys)) < len(keys):
        raise ValueError("something stands in the answer twice")


def _refuse_twice_coded(keys: Mapping[str, Integers]) -> None:
    """As ``_refuse_twice``, of keys whose parts are small numbers."""
    whole: Integers | int = 0
    sizes = [int(part.max(initial=0)) + 1 for part in keys.values()]
    if math.prod(sizes) >= 2**63:
        _refuse_twice([*zip(*(part.tolist() for part in keys.values()), strict=True)])
        return
    for size, part in zip(sizes, keys.values(), strict=True):
        whole = whole * size + part
    if len(np.unique(whole)) < len(part):
        raise ValueError("something stands in the answer twice")
