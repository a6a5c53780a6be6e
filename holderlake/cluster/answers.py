"""Compute maps and holders of many tokens at many instants from the derived tables, as the lake's tables.

The rows equal those of ``holderlake.engine.maps.batch``. They are computed by partition (chain and instant). Tokens,
labels and rules are read from a store of the engine; the store may have no transfers.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import PurePath
from typing import Any, Final, Protocol
from uuid import uuid4

import pyarrow as pa

from holderlake.cluster.map_tables import MAP_ROWS, PAID_LABEL, MapJob, TokenMetadata, read_stream
from holderlake.cluster.statements import ANSWERS, BUILD, Statement, Values, statement
from holderlake.contract.chains import ZERO_ADDRESS
from holderlake.contract.requests import MapOptions
from holderlake.contract.times import from_unix, to_unix, utc_now
from holderlake.engine.catalog.labels import AddressLabel
from holderlake.engine.errors import BadSource
from holderlake.engine.queries.addresses import CEX, CONTRACT, DEX
from holderlake.engine.queries.balances import supported_token
from holderlake.engine.store.store import Store

_DAY: Final = 86_400
_KEYS: Final = ("chain", "as_of", "token_address")
_LABELS: Final = pa.schema(
    [*((name, pa.string()) for name in ("chain", "address", "name", "entity_id")), ("kinds", pa.int64())]
)
_STORED_STATEMENTS: Final = frozenset(ANSWERS) - {"balances", "shown_transfers", "map_wallets", "map_parts"}
"""Statements whose results are stored. Several other statements use them, or a long chain of statements leads to
them."""


_BUILDS: Final = pa.schema(
    [("location", pa.string()), ("finished_at", pa.timestamp("us")), ("files", pa.int64()), ("digest", pa.string())]
)


class Engine(Protocol):
    """A database that runs the SQL statements: ``duckdb_engine.DuckDbEngine`` or ``spark_engine.SparkEngine``."""

    def read(self, name: str, locations: Sequence[str]) -> None: ...

    def register(self, name: str, rows: pa.Table) -> None: ...

    def run(self, query: Statement, values: Values, keep: bool = False) -> None: ...

    def rows(self, query: Statement, values: Values) -> Iterator[pa.RecordBatch]: ...

    def save(self, name: str, location: str) -> None: ...

    def table(self, name: str) -> pa.Table: ...

    def grouped(
        self,
        left: str,
        right: str,
        keys: Sequence[str],
        compute: Callable[[tuple[Any, ...], pa.Table, pa.Table], pa.Table],
        schema: pa.Schema,
        together: Sequence[str],
    ) -> Iterator[dict[str, Any]]: ...


@dataclass(frozen=True)
class BulkRequest:
    """A request for maps and lists of holders, for tokens (chain, address) at instants.

    ``maps`` are the options of the maps; None requests no maps. ``holders`` is the number of holders in a list; None
    requests no lists. ``details`` adds address details to the lists.
    """

    tokens: Sequence[tuple[str, str]]
    instants: Sequence[datetime]
    maps: MapOptions | None
    holders: int | None = None
    details: bool = False


@dataclass(frozen=True)
class Partition:
    """The rows of a chain as of an instant. ``tables`` has the lake's tables by name; each is sorted by token.

    Tokens without holders have no rows.
    """

    chain: str
    as_of: datetime
    tables: dict[str, pa.Table]


def answers(
    engine: Engine,
    store: Store,
    derived: str,
    request: BulkRequest,
    computed_at: datetime | None = None,
    on_statement: Callable[[str], None] = lambda _: None,
) -> Iterator[Partition]:
    """Yield the lake's tables of every token at every instant, by partition. The order of partitions is not defined.

    ``derived`` is the location of the derived tables (``Build.location``). ``store`` has the tokens, labels and rules.
    ``computed_at`` is the time in the column ``dt_update``; None means the present. ``on_statement`` is called with the
    name of a statement before it runs. Raises ``UnknownToken`` or ``UnsupportedToken`` before any statement runs, and
    ``BadSource`` if labels are to count by their periods.
    """
    if store.rules.labels != "latest" and store.period_starts():
        raise BadSource(
            "a cluster uses the latest labels, and the setting engine.thresholds.labels is as_of; set it to latest, or "
            "compute without a cluster"
        )
    job = _map_job(store, request, computed_at or utc_now())
    for name in BUILD:
        engine.read(name, [f"{derived}/{name}"])
    _register_inputs(engine, store, request)
    for name in ANSWERS:
        on_statement(name)
        engine.run(statement(name), _parameters(store, request), name in _STORED_STATEMENTS)
    on_statement("maps")
    rows = engine.grouped("holders", "map_parts", _KEYS, job.rows, MAP_ROWS, ("chain", "as_of"))
    for (chain, second), of_partition in groupby(rows, key=lambda row: (row["chain"], row["as_of"])):
        tables: dict[str, list[pa.Table]] = {}
        for row in of_partition:
            tables.setdefault(row["name"], []).append(read_stream(row["rows"]))
        yield Partition(chain, from_unix(second), {name: pa.concat_tables(rows) for name, rows in tables.items()})


def _map_job(store: Store, request: BulkRequest, computed_at: datetime) -> MapJob:
    requested_tokens = {key: supported_token(store, *key) for key in request.tokens}
    maps = request.maps
    return MapJob(
        TokenMetadata(requested_tokens | store.tokens(store.indexed_tokens())),
        store.rules,
        maps.limit if maps else None,
        maps.return_decentralization_score if maps else False,
        request.holders,
        request.details,
        computed_at,
    )


def _parameters(store: Store, request: BulkRequest) -> Values:
    """Return the values of the statements' parameters, by name."""
    rules, maps = store.rules, request.maps
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
        "most": max(limit, request.holders or 0),
    }


def _register_inputs(engine: Engine, store: Store, request: BulkRequest) -> None:
    """Register the small tables that statements read: the request, and the store's tokens and labels."""
    number, text = pa.int64(), pa.string()
    seconds = sorted({to_unix(instant) for instant in request.instants})
    days = [(second + 1) // _DAY for second in seconds]
    engine.register("instants", _table(second=(number, seconds), open_day=(number, days)))
    first_open = [seconds[bisect_right(days, day)] for day in range(days[-1])]  # the first open day after each day
    engine.register("days", _table(day=(number, range(days[-1])), known_at=(number, first_open)))
    engine.register("requested_tokens", _keys(request.tokens))
    engine.register("indexed_tokens", _keys(store.indexed_tokens()))
    labelled = store.marked_addresses()
    kinds = {address: kind for address, label in labelled.items() if (kind := _kinds(label))}
    engine.register("address_kinds", _table(address=(text, list(kinds)), kinds=(number, list(kinds.values()))))
    allowed = store.rules.time_allowed if request.maps else ()
    exchanges = sorted({address for address, kind in kinds.items() if kind & (CEX | DEX)} | set(allowed))
    engine.register("exchanges", _table(address=(text, exchanges)))
    engine.register("labels", _labels(store, sorted(labelled), sorted({chain for chain, _ in request.tokens})))


def _labels(store: Store, addresses: Sequence[str], chains: Sequence[str]) -> pa.Table:
    rows = [
        {"chain": chain, "address": address, "name": label.name, "entity_id": label.entity_id}
        | {"kinds": _kinds(label) | PAID_LABEL * label.is_paid_label}
        for chain in chains
        for address, label in store.labels(addresses, chain).items()
    ]
    return pa.Table.from_pylist(rows, _LABELS)


def _kinds(label: AddressLabel) -> int:
    return CEX * label.is_cex | DEX * label.is_dex | CONTRACT * label.is_contract


def _keys(keys: Sequence[tuple[str, str]]) -> pa.Table:
    distinct = sorted(set(keys))
    text = pa.string()
    return _table(chain=(text, [key[0] for key in distinct]), token_address=(text, [key[1] for key in distinct]))


def _table(**columns: tuple[pa.DataType, Sequence[Any]]) -> pa.Table:
    return pa.table({name: pa.array(list(values), dtype) for name, (dtype, values) in columns.items()})


@dataclass(frozen=True)
class Build:
    """A finished build. ``location`` is its folder, ``files`` the number of files of raw transfers that it read.

    ``digest`` identifies these files (see ``digest_of``); it is empty if they do not belong to a store.
    """

    location: str
    finished_at: datetime
    files: int
    digest: str


def build(
    engine: Engine, raw: Sequence[str], root: str, digest: str = "", on_table: Callable[[str], None] = lambda _: None
) -> Build:
    """Write the derived tables to a new folder in ``root``. ``raw`` are Parquet files of transfers
    (``records.TRANSFERS``).

    ``digest`` is recorded in the result. ``on_table`` is called with the name of each finished table.
    """
    name = f"build-{uuid4().hex}"
    engine.read("raw", raw)
    for table in BUILD:
        engine.run(statement(table), {})
        engine.save(table, f"{root}/{name}/{table}")
        engine.read(table, [f"{root}/{name}/{table}"])  # the next tables read it instead of computing it again
        on_table(table)
    built = Build(f"{root}/{name}", utc_now(), len(raw), digest)
    engine.register("built", pa.Table.from_pylist([vars(built)], _BUILDS))
    engine.save("built", f"{root}/builds/{name}")
    return built


def latest_build(engine: Engine, root: str) -> Build | None:
    """Return the last finished build in ``root``; None if there is none."""
    try:
        engine.read("builds", [f"{root}/builds/*/*.parquet"])
    except FileNotFoundError:
        return None
    builds = [Build(**row) for row in engine.table("builds").select(_BUILDS.names).cast(_BUILDS).to_pylist()]
    return max(builds, key=lambda build: build.finished_at, default=None)


def digest_of(raw: Sequence[str]) -> str:
    """Return a digest of the names of a store's files ``raw``. It identifies their content, which never changes."""
    return hashlib.sha256("\n".join(sorted(PurePath(path).name for path in raw)).encode()).hexdigest()
