"""SQLite files of a home: who can read them, and who waits."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Column, MetaData, Table, Text, insert, select

from holderlake.core.provider.ledger.ledger import CreditLedger
from holderlake.core.storage.sqlite import DatabaseBusy, explained
from holderlake.core.storage.state import State
from holderlake.service.billing.keys import KeyStore


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_only_their_owner_can_read_ledger_and_keys(tmp_path: Path) -> None:
    with CreditLedger(tmp_path / "ledger.sqlite"), KeyStore(tmp_path / "keys.sqlite") as keys:
        keys.create("a caller", 100)
        files = sorted(tmp_path.rglob("*.sqlite*"))
        assert {"ledger.sqlite", "ledger.sqlite-wal", "keys.sqlite"} <= {file.name for file in files}
        assert {"keys.sqlite-wal", "keys.sqlite-shm", "ledger.sqlite-shm"} <= {file.name for file in files}
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_readers_do_not_wait_for_the_writer_of_their_process(tmp_path: Path) -> None:
    calls = Table("calls", MetaData(), Column("name", Text))
    database = State(tmp_path / "state.sqlite", calls.metadata, "NORMAL")
    with closing(database), database.transaction() as db:
        db.execute(insert(calls), {"name": "one"})
        assert database.rows(select(calls)) == []


def test_an_extended_error_code_of_a_busy_database_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with closing(sqlite3.connect(path)) as reader, closing(sqlite3.connect(path)) as writer:
        reader.executescript("PRAGMA journal_mode = WAL; CREATE TABLE calls (name); BEGIN; SELECT * FROM calls;")
        writer.executescript("INSERT INTO calls VALUES ('one')")
        with pytest.raises(sqlite3.OperationalError) as raised:
            reader.execute("INSERT INTO calls VALUES ('two')")
    assert raised.value.sqlite_errorcode == sqlite3.SQLITE_BUSY_SNAPSHOT
    assert isinstance(explained(path, raised.value, ""), DatabaseBusy)
