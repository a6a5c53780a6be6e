"""Bulk answers from the derived tables: the maps and holders of many tokens at many instants, as the lake's tables.

Rows are those that ``engine.maps.batch`` gives from the embedded store, a partition (chain and instant) after
another. Tokens, labels and rules come from an embedded store, which need not hold any transfer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Final, Protocol

import pyarrow as pa

from holderlake.cluster.drawing import CEX, CONTRACT, DEX, DRAWN, PAID, Book, Task, rows_of
from holderlake.cluster.statements import ANSWERS, BUILD, Values
from holderlake.contract.chains import ZERO_ADDRESS
from holderlake.contract.requests import MapOptions
from holderlake.contract.times import from_unix, to_unix, utc_now
from holderlake.engine.catalog.labels import AddressLabel
from holderlake.engine.queries.balances import mappable_token
from holderlake.engine.store.store import Store

_DAY: Final = 86_400
_KEYS: Final = ("chain", "as_of", "token_address")
_KEPT: Final = frozenset(ANSWERS) - {"held", "dealings", "on_map", "parts"}
"""What several statements need, or what ends a long chain of them: it is made once."""


class Engine(Protocol):
    """What runs the statements: ``duck.Duck`` or ``spark.Spark``."""

    def read(self, name: str, locations: Sequence[str]) -> None: ...

    def give(self, name: str, rows: pa.Table) -> None: ...

    def make(self, name: str, values: Values, keep: bool = False) -> None: ...

    def save(self, name: str, location: str) -> None: ...

    def table(self, name: str) -> pa.Table: ...

    def grouped(
        self,
        left: str,
        right: str,
        keys: Sequence[str],
        draw: Callable[[tuple[Any, ...], pa.Table, pa.Table], pa.Table],
        schema: pa.Schema,
        together: Sequence[str],
    ) -> Iterator[dict[str, Any]]: ...


@dataclass(frozen=True)
class Asked:
    """What is asked of the cluster: tokens (chain, address) at instants; maps with these options and lists of so many
    holders, with details or without. None leaves maps or lists out."""

    tokens: Sequence[tuple[str, str]]
    instants: Sequence[datetime]
    maps: MapOptions | None
    holders: int | None = None
    details: bool = False


@dataclass(frozen=True)
class Partition:
    """What there is of a chain as of an instant: rows by table, of all tokens that somebody holds then, by token."""

    chain: str
    as_of: datetime
    tables: dict[str, pa.Table]


def answers(
    engine: Engine,
    store: Store,
    derived: str,
    asked: Asked,
    computed_at: datetime | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> Iterator[Partition]:
    """The lake's tables of every token at every instant, a partition at a time, in no order of partitions.

    ``derived`` is where ``build`` put the derived tables; ``told`` hears the name of each statement that is run. Raises
    ``UnknownToken`` or ``UnsupportedToken`` before anything is computed.
    """
    task = _task(store, asked, computed_at or utc_now())
    for name in BUILD:
        engine.read(name, [f"{derived}/{name}"])
    _give(engine, store, asked)
    for name in ANSWERS:
        told(name)
        engine.make(name, _values(store, asked), name in _KEPT)
    told("maps")
    rows = engine.grouped("holders", "parts", _KEYS, task.draw, DRAWN, ("chain", "as_of"))
    for (chain, second), mine in groupby(rows, key=lambda row: (row["chain"], row["as_of"])):
        tables: dict[str, list[pa.Table]] = {}
        for row in mine:
            tables.setdefault(row["name"], []).append(rows_of(row["rows"]))
        yield Partition(chain, from_unix(second), {name: pa.concat_tables(rows) for name, rows in tables.items()})


def _task(store: Store, asked: Asked, computed_at: datetime) -> Task:
    own = {key: mappable_token(store, *key) for key in asked.tokens}
    known = own | store.tokens(store.indexed_tokens())
    maps = asked.maps
    return Task(
        Book(known),
        store.rules,
        maps.limit if maps else None,
        maps.return_decentralization_score if maps else False,
        asked.holders,
        asked.details,
        computed_at,
    )


def _values(store: Store, asked: Asked) -> Values:
    """What the statements bind."""
    rules, maps = store.rules, asked.maps
    limit = maps.limit if maps else 0
    return {
        "zero": ZERO_ADDRESS,
        "hypernode_transfers": rules.hypernode_transfers,
        "supernode_degree": rules.supernode_degree,
        "fresh_wallet_seconds": rules.fresh_wallet_seconds,
        "magic_links": rules.magic_links,
        "magic_limit": rules.magic_limit if maps and maps.use_magic_nodes else 0,
        "time_window": rules.time_window,
        "time_links": rules.time_links,
        "time_wallets": rules.time_wallets,
        "time_limit": rules.time_limit if maps and maps.use_time_nodes else 0,
        "limit": limit,
        "most": max(limit, asked.holders or 0),
    }


def _give(engine: Engine, store: Store, asked: Asked) -> None:
    """The small tables that statements read: what is asked for, and what the store knows of tokens and addresses."""
    seconds = sorted({to_unix(instant) for instant in asked.instants})
    days = [(second + 1) // _DAY for second in seconds]
    engine.give("instants", _table(second=(pa.int64(), seconds), open_day=(pa.int64(), days)))
    known = [bisect_right(days, day) for day in range(days[-1])]  # the first open day after each
    engine.give("days", _table(day=(pa.int64(), range(days[-1])), known_at=(pa.int64(), [seconds[at] for at in known])))
    engine.give("wanted", _keys(asked.tokens))
    engine.give("indexed", _keys(store.indexed_tokens()))
    marked = store.marked_addresses()
    kinds = {address: _kinds(label) for address, label in marked.items()}
    of_interest = {address: kind for address, kind in kinds.items() if kind}
    engine.give(
        "marks", _table(address=(pa.string(), list(of_interest)), kinds=(pa.int64(), list(of_interest.values())))
    )
    allowed = store.rules.time_allowed if asked.maps else ()
    exchanges = sorted({address for address, kind in of_interest.items() if kind & (CEX | DEX)} | set(allowed))
    engine.give("exchanges", _table(address=(pa.string(), exchanges)))
    engine.give("labels", _labels(store, sorted(marked), sorted({chain for chain, _ in asked.tokens})))


def _labels(store: Store, addresses: Sequence[str], chains: Sequence[str]) -> pa.Table:
    rows = [
        (chain, address, label.name, label.entity_id, _kinds(label) | PAID * label.is_paid_label)
        for chain in chains
        for address, label in store.labels(addresses, chain).items()
    ]
    columns = list(zip(*rows, strict=True)) or [()] * 5
    text = pa.string()
    return _table(
        chain=(text, columns[0]),
        address=(text, columns[1]),
        name=(text, columns[2]),
        entity_id=(text, columns[3]),
        kinds=(pa.int64(), columns[4]),
    )


def _kinds(label: AddressLabel) -> int:
    return CEX * label.is_cex | DEX * label.is_dex | CONTRACT * label.is_contract


def _keys(keys: Sequence[tuple[str, str]]) -> pa.Table:
    distinct = sorted(set(keys))
    text = pa.string()
    return _table(chain=(text, [key[0] for key in distinct]), token_address=(text, [key[1] for key in distinct]))


def _table(**columns: tuple[pa.DataType, Sequence[Any]]) -> pa.Table:
    return pa.table({name: pa.array(list(values), dtype) for name, (dtype, values) in columns.items()})
