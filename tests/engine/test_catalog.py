"""A store's catalogue is made once, by any number of processes, and one of another format is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from subprocess import PIPE

import pytest

from holderlake.core.contract.rules import Rules
from holderlake.engine.catalog import catalog
from holderlake.engine.errors import BadSource
from holderlake.engine.store.store import Store
from tests.engine.world import a_token
from tests.helpers.processes import start


def run(folder: Path, script: str) -> None:
    with closing(sqlite3.connect(folder / "catalog.sqlite")) as connection:
        connection.executescript(script)


def everything(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "catalog.sqlite")) as connection:
        return list(connection.iterdump())


@pytest.mark.parametrize("statement", range(1, 16, 2))
def test_tables_that_cannot_all_be_made_leave_an_empty_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: int
) -> None:
    original = catalog._run

    def run_some(connection: sqlite3.Connection, script: str) -> None:
        original(connection, ";".join(script.split(";")[:statement]) + ";")
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(catalog, "_run", run_some)
        with pytest.raises(sqlite3.OperationalError, match="disk is full"):
            Store(tmp_path)
    assert everything(tmp_path) == ["BEGIN TRANSACTION;", "COMMIT;"]
    with Store(tmp_path) as store:
        store.add_tokens([a_token(("eth", "coin"), symbol="COIN")])
        assert [token.address for token in store.search("coin", 9)] == ["coin"]


@pytest.mark.parametrize(
    ("number", "remedy"), [(3, "install the newer version"), (-1, "run 'holderlake home upgrade'")]
)
def test_a_store_of_another_format_is_refused_and_not_changed(tmp_path: Path, number: int, remedy: str) -> None:
    Store(tmp_path).close()
    (tmp_path / "catalog-copy.sqlite").unlink()  # else the catalogue differs from it
    run(tmp_path, f"PRAGMA user_version = {number}")
    before = everything(tmp_path)
    with pytest.raises(BadSource, match=f"format {number}, and this version of Holderlake reads format 2: {remedy}"):
        Store(tmp_path, Rules(supernode_degree=99))
    assert everything(tmp_path) == before


_OPEN = """
import sys
from pathlib import Path
from holderlake.engine.store.store import Store
print("ready", flush=True)
sys.stdin.readline()
with Store(Path(sys.argv[1])) as store:
    print(len(store.search("coin", 50)))
"""


@pytest.mark.integration
def test_processes_that_open_a_new_store_at_once_all_succeed(tmp_path: Path) -> None:
    openers = [start(_OPEN, str(tmp_path), stdin=PIPE, stdout=PIPE, stderr=PIPE) for _ in range(3)]
    for opener in openers:
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        opener.stdin.write("now\n")
        opener.stdin.flush()
    assert [opener.communicate() for opener in openers] == [("0\n", "")] * 3


def test_opening_a_store_does_not_wait_for_an_import(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as importing:
        importing.execute("BEGIN IMMEDIATE")
        with Store(tmp_path) as store:
            assert store.histories() == []
