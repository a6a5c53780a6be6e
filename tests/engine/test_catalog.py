"""A catalogue of an earlier version is updated when it is opened: completely, once, or not at all."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from subprocess import PIPE

import pyarrow.parquet as pq
import pytest

from holderlake.contract.times import from_unix
from holderlake.engine.catalog import catalog
from holderlake.engine.errors import BadSource
from holderlake.engine.queries.addresses import address_facts
from holderlake.engine.records import Label, Rules, TokenInfo
from holderlake.engine.store.store import Store
from tests.engine.world import END, UINT256, Row, a_token, held, table, transfer, world
from tests.processes import start

FIRST_RELEASE = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE tokens (
    chain TEXT NOT NULL, address TEXT NOT NULL, name TEXT NOT NULL, symbol TEXT NOT NULL, decimals INTEGER NOT NULL,
    standard TEXT NOT NULL, is_indexed INTEGER NOT NULL, img_url TEXT, unsupported TEXT, assumed INTEGER NOT NULL,
    PRIMARY KEY (chain, address)
);
CREATE INDEX tokens_by_symbol ON tokens (lower(symbol));
CREATE INDEX tokens_by_name ON tokens (lower(name));
CREATE INDEX tokens_by_address ON tokens (address);
CREATE TABLE histories (
    chain TEXT NOT NULL, token_address TEXT NOT NULL, file TEXT NOT NULL, transfers INTEGER NOT NULL,
    first_time INTEGER NOT NULL, last_time INTEGER NOT NULL, PRIMARY KEY (chain, token_address)
);
CREATE TABLE labels (
    address TEXT NOT NULL, chain TEXT NOT NULL, source TEXT NOT NULL, name TEXT, entity_id TEXT,
    is_cex INTEGER NOT NULL, is_dex INTEGER NOT NULL,
    is_contract INTEGER NOT NULL, is_paid_label INTEGER NOT NULL, precedence INTEGER NOT NULL,
    PRIMARY KEY (address, chain, source)
);
INSERT INTO settings VALUES ('format', '1');
INSERT INTO tokens VALUES ('eth', 'coin', 'Straßenmünze', 'ÄÖÜ', 6, 'erc20', 1, NULL, NULL, 0);
INSERT INTO tokens VALUES ('bsc', 'other', 'other', 'other', 18, 'erc20', 0, NULL, NULL, 1);
INSERT INTO labels VALUES ('a', '', 's', 'Ann', NULL, 0, 0, 0, 0, 5);
"""
COIN = TokenInfo("eth", "coin", "Straßenmünze", "ÄÖÜ", 6, is_indexed=True)


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The folder of a store that the first release made."""
    run(tmp_path, "PRAGMA journal_mode = WAL; " + FIRST_RELEASE)
    return tmp_path


def run(folder: Path, script: str) -> None:
    with closing(sqlite3.connect(folder / "catalog.sqlite")) as connection:
        connection.executescript(script)


def everything(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "catalog.sqlite")) as connection:
        return list(connection.iterdump())


def shape(folder: Path) -> list[tuple[str, ...]]:
    """Tables, columns and indexes, and the number of the version."""
    with closing(sqlite3.connect(folder / "catalog.sqlite")) as connection:
        columns = "SELECT t.name, c.name, c.type, c.pk FROM sqlite_master AS t, pragma_table_info(t.name) AS c"
        indexes = "SELECT name, tbl_name FROM sqlite_master WHERE type = 'index'"
        queries = (
            f"{columns} WHERE t.type = 'table' ORDER BY 1, c.cid",
            f"{indexes} ORDER BY 1",
            "PRAGMA user_version",
        )
        return [row for query in queries for row in connection.execute(query)]


def test_a_store_of_the_first_release_can_be_searched(earlier: Path) -> None:
    with Store(earlier) as store:
        assert store.search("äöü", 9) == store.search("STRASSEN", 9) == [COIN]
        assert store.token("eth", "coin") == COIN
        assert store.labels(["a"])["a"].name == "Ann"
        assert (store.generation(), store.first_change_since(0)) == (0, None)


def test_a_store_of_version_0_1_0_opens(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add_transfers(table([transfer("mint -> a", 5)]), "file")
        store.add_tokens([a_token(("eth", "coin"), name="Blue Moths")])
    run(tmp_path, "DROP TRIGGER words_follow_is_indexed; DROP TABLE words; PRAGMA user_version = 2;")
    with Store(tmp_path) as store:
        assert held(store) == {"a": 5}
        assert [token.name for token in store.search("moths", 9)] == ["Blue Moths"]


def test_a_store_of_the_first_release_takes_imports(earlier: Path) -> None:
    with Store(earlier) as store:
        store.add_transfers(table([transfer("mint -> a", at=7)]), "file")
        store.add_tokens([a_token(("eth", "new"), symbol="NEW")])
        store.add_labels([Label("a", None, "s", "Ann", precedence=5)])
        assert store.generation() == 2
        assert [token.address for token in store.search("new", 9)] == ["new"]


def test_an_updated_store_has_the_tables_of_a_new_one_and_is_updated_once(earlier: Path, tmp_path: Path) -> None:
    Store(earlier).close()
    Store(tmp_path / "new").close()
    assert shape(earlier) == shape(tmp_path / "new")
    before = everything(earlier)
    Store(earlier).close()
    assert everything(earlier) == before


@pytest.mark.parametrize("statement", range(1, 16, 2))
def test_an_update_that_fails_midway_leaves_the_store_as_it_was(
    earlier: Path, monkeypatch: pytest.MonkeyPatch, statement: int
) -> None:
    before = everything(earlier)
    original = catalog._run

    def run_some(connection: sqlite3.Connection, script: str) -> None:
        nonlocal statement
        lines = script.split(";")
        original(connection, ";".join(lines[:statement]) + ";")
        if len(lines) > statement:
            raise sqlite3.OperationalError("database or disk is full")
        statement -= len(lines)

    with monkeypatch.context() as broken:
        broken.setattr(catalog, "_run", run_some)
        with pytest.raises(sqlite3.OperationalError, match="disk is full"):
            Store(earlier)
    assert everything(earlier) == before
    with Store(earlier) as store:
        assert store.search("äöü", 9) == [COIN]


@pytest.mark.parametrize("is_current", [False, True])
def test_a_store_of_another_format_is_refused_and_not_changed(earlier: Path, is_current: bool) -> None:
    if is_current:
        Store(earlier).close()
    run(earlier, "UPDATE settings SET value = '3' WHERE name = 'format'")
    before = everything(earlier)
    with pytest.raises(BadSource, match="format 3, and this version of Holderlake reads format 2"):
        Store(earlier, Rules(supernode_degree=99))
    assert everything(earlier) == before


_OPEN = """
import sys
from pathlib import Path
from holderlake.engine.store.store import Store
print("ready", flush=True)
sys.stdin.readline()
with Store(Path(sys.argv[1])) as store:
    print(len(store.search("coin", 50)))
"""


@pytest.mark.parametrize("made_by", ["the first release", "no version"])
def test_processes_that_open_a_store_at_once_all_succeed(tmp_path: Path, made_by: str) -> None:
    expected = "0"
    if made_by == "the first release":
        rows = (f"('eth', 't{number}', 'n', 'Coin{number}', 0, 'erc20', 0, NULL, NULL, 0)" for number in range(5_000))
        run(tmp_path, f"PRAGMA journal_mode = WAL; {FIRST_RELEASE} INSERT INTO tokens VALUES {', '.join(rows)}")
        expected = "50"
    openers = [start(_OPEN, str(tmp_path), stdin=PIPE, stdout=PIPE, stderr=PIPE) for _ in range(3)]
    for opener in openers:
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        opener.stdin.write("now\n")
        opener.stdin.flush()
    outputs = [opener.communicate() for opener in openers]
    assert outputs == [(f"{expected}\n", "")] * 3


def test_opening_a_store_does_not_wait_for_an_import(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as importing:
        importing.execute("BEGIN IMMEDIATE")
        with Store(tmp_path) as store:
            assert store.histories() == []


# ---------------------------------------------------------------------- histories of format 1


def with_histories(folder: Path, *rows: Row) -> None:
    """Gives a store of the first release the Parquet files and the rows of histories that it would have."""
    (folder / "transfers").mkdir()
    by_token: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_token.setdefault((row["chain"], row["token_address"]), []).append(row)
    for number, (key, own) in enumerate(by_token.items()):
        pq.write_table(table(own), folder / "transfers" / f"history{number}.parquet", compression="zstd")
        times = [row["block_time"] for row in own]
        values = (*key, f"history{number}.parquet", len(own), min(times), max(times))
        run(folder, f"INSERT INTO histories VALUES {values}")


HISTORY = (
    transfer("mint -> a", UINT256, at=5),
    transfer("a -> b", 7, at=9, tx_hash=None),
    transfer("a -> b", 0, at=9),
    transfer("mint -> b", 3, at=100_000, token=("bsc", "other")),
)


def test_histories_of_the_first_format_are_migrated(earlier: Path) -> None:
    with_histories(earlier, *HISTORY)
    with Store(earlier) as store, world(*HISTORY) as new:
        assert store.histories() == new.histories()
        for token in (("eth", "coin"), ("bsc", "other")):
            assert held(store, token=token) == held(new, token=token)
        assert address_facts(store, ["b", "c"], from_unix(END)) == address_facts(new, ["b", "c"], from_unix(END))
        report = store.add_transfers(table([*HISTORY, transfer("a -> c", 1, at=20)]), "again")
        assert (report.added, report.duplicates) == (1, 4)
    with Store(earlier) as again:
        assert held(again) == {"a": UINT256 - 8, "b": 7, "c": 1}


def test_a_history_that_cannot_be_migrated_leaves_the_store_unchanged(earlier: Path) -> None:
    with_histories(earlier, *HISTORY)
    whole = (earlier / "transfers" / "history1.parquet").read_bytes()
    (earlier / "transfers" / "history1.parquet").write_bytes(b"half a file")
    before = everything(earlier)
    with pytest.raises(Exception, match="history1"):
        Store(earlier)
    assert everything(earlier) == before
    (earlier / "transfers" / "history1.parquet").write_bytes(whole)
    with Store(earlier) as store:
        assert held(store) == {"a": UINT256 - 7, "b": 7}


@pytest.mark.parametrize("delays", [[0.45], [0.25, 0.35, 0.6]])
def test_a_killed_migration_can_be_repeated(earlier: Path, delays: list[float]) -> None:
    rows = [transfer(f"mint -> {number % 50}", 1, at=number, tx_hash=f"t{number}") for number in range(20_000)]
    with_histories(earlier, *rows, *HISTORY)
    for delay in delays:
        opener = start(_OPEN, str(earlier), stdin=PIPE, stdout=PIPE)
        assert opener.stdout.readline() == "ready\n"
        opener.stdin.write("now\n")
        opener.stdin.flush()
        time.sleep(delay - 0.2)
        opener.kill()
        opener.communicate()
    with Store(earlier) as store:
        assert sum(history.transfers for history in store.histories()) == len(rows) + len(HISTORY)
        assert held(store)["7"] == 400
