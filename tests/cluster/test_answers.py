"""The cluster's SQL on DuckDB gives the answers of the embedded engine, for many worlds."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given

from holderlake.contract.requests import MapOptions
from holderlake.contract.rules import Rules
from holderlake.contract.times import from_unix
from holderlake.engine.catalog.opening_balances import OPENING_BALANCES
from holderlake.engine.errors import UnknownToken
from tests.cluster.conftest import AT, Asking, Tables, in_order
from tests.engine.world import COIN, Row, a_token, cex, contract, histories, settled, transfer, world

pytest.importorskip("sqlglot", reason="'make extras' installs what the cluster needs")

from holderlake.cli.cluster_jobs import raw_files
from holderlake.cluster.answers import BulkRequest, answers, build
from holderlake.cluster.duckdb_engine import DuckDbEngine


def by_sql(asking: Asking, folder: Path) -> Tables:
    """Return the answers of the cluster's SQL by table."""
    found: dict[str, list[pa.Table]] = {}
    asked = BulkRequest(asking.tokens, asking.instants, asking.maps, asking.holders, details=True)
    with DuckDbEngine() as duck:
        derived = build(duck, asking.raw, str(folder)).location
        for partition in answers(duck, asking.store, derived, asked, AT):
            for name, rows in partition.tables.items():
                found.setdefault(name, []).append(rows)
    return {name: in_order(pa.concat_tables(rows)) for name, rows in found.items()}


def test_maps_and_holders_equal_those_of_the_embedded_engine(asking: Asking, embedded: Tables, tmp_path: Path) -> None:
    found = by_sql(asking, tmp_path)
    assert found.keys() == embedded.keys()
    for name, rows in embedded.items():
        assert found[name].equals(rows), name
    assert embedded["maps"].num_rows > 50


@settled(12)
@given(histories())
def test_random_histories_give_the_answers_of_the_embedded_engine(history: list[Row]) -> None:
    rules = Rules(
        supernode_degree=4, hypernode_transfers=9, magic_links=1, time_window=10, time_links=1, time_wallets=2
    )
    token = a_token(COIN, decimals=18)
    with (
        world(*history, tokens=[token], labels=[cex("e"), contract("f")], rules=rules) as store,
        TemporaryDirectory() as folder,
    ):
        options = MapOptions.model_construct(limit=3)
        asking = Asking(store, store.files(), [COIN], [from_unix(at) for at in (1, 50, 100)], options, 2)
        embedded = {name: rows for name, rows in asking.embedded().items() if rows.num_rows}
        if "maps" in embedded:  # the cluster reports no addresses below zero
            place = embedded["maps"].schema.get_field_index("negative_balances")
            nothing = pa.nulls(embedded["maps"].num_rows, pa.string())
            embedded["maps"] = embedded["maps"].set_column(place, embedded["maps"].schema.field(place), nothing)
        found = {name: rows for name, rows in by_sql(asking, Path(folder)).items() if rows.num_rows}
        assert found == embedded


def test_a_transfer_in_two_files_counts_once(asking: Asking, embedded: Tables, tmp_path: Path) -> None:
    twice = Asking(asking.store, [*asking.raw, *asking.raw[:3]], asking.tokens, asking.instants, asking.maps, 250)
    assert by_sql(twice, tmp_path)["holders"].equals(embedded["holders"])


def test_opening_balances_are_balances_but_no_transfers(tmp_path: Path) -> None:
    balances = [
        {"chain": "eth", "token_address": "coin", "address": address, "balance": str(balance)}
        | {"block_number": 1, "block_time": 5}
        for address, balance in (("a", 10**30), ("b", 7))
    ]
    moved = [transfer("a -> b", 3, 86_400 * 2), transfer("b -> c", 4, 86_400 * 3)]
    with world(*moved, tokens=[a_token(COIN)]) as store:
        store.add_opening_balances(pa.Table.from_pylist(balances, OPENING_BALANCES))
        instants = [from_unix(at) for at in (5, 86_400 * 2 + 1, 86_400 * 5)]
        asking = Asking(store, raw_files(store), [COIN], instants, MapOptions(), 80)
        embedded = asking.embedded()
        assert by_sql(asking, tmp_path) == embedded
        assert embedded["maps"].num_rows == 3


def test_ties_of_magic_nodes_equal_those_of_the_embedded_engine(tmp_path: Path) -> None:
    names = ["1m", "M", "Z", "a1", "m", "m2", "ma", "ä"]
    rows = [transfer(f"mint -> {name}", 20) for name in reversed(names)]
    rows += [transfer(f"{name} -> {holder}", 10) for name in reversed(names) for holder in ("h1", "h2")]
    with world(*rows, tokens=[a_token(COIN)], rules=Rules(magic_limit=5)) as store:
        asking = Asking(store, store.files(), [COIN], [from_unix(9)], MapOptions(), 80)
        embedded, found = asking.embedded(), by_sql(asking, tmp_path)
        assert {name: found[name] for name in found} == {name: embedded[name] for name in found}
        magic = [row["address"] for row in found["map_nodes"].to_pylist() if row["kind"] == "magic"]
        assert magic == names[:5]


def test_clusters_equal_those_of_the_embedded_engine(tmp_path: Path) -> None:
    """A magic node uses the exchange with two holders in the first window; the second has too many users."""
    uses = [("a", 310), ("b", 320), ("m", 330), ("a", 610), ("e", 620), ("s1", 630), ("s2", 640)]
    rows = [
        *(transfer(f"mint -> {name}", value) for name, value in zip("xabcde", range(100, 40, -10), strict=True)),
        *(transfer(path, 1, 5) for path in ("mint -> m", "c -> m", "m -> d", "mint -> s1", "mint -> s2")),
        *(transfer(f"x -> {name}", 1, at) for name, at in uses),
    ]
    rules = Rules(time_wallets=3)
    with world(*rows, tokens=[a_token(COIN)], labels=[cex("x")], rules=rules) as store:
        options = MapOptions.model_construct(limit=6)
        instants = [from_unix(at) for at in (329, 639, 640)]
        asking = Asking(store, store.files(), [COIN], instants, options, 80)
        embedded, found = asking.embedded(), by_sql(asking, tmp_path)
        assert found == embedded
        holders = [row["holder_count"] for row in found["clusters"].to_pylist()]
        assert holders == [2, 2, 5, 4]


def test_an_unknown_token_is_refused_before_any_statement_runs(asking: Asking) -> None:
    asked = BulkRequest([("eth", "unknown")], asking.instants, asking.maps)
    with DuckDbEngine() as duck, pytest.raises(UnknownToken, match="unknown"):
        next(answers(duck, asking.store, "nowhere", asked))
