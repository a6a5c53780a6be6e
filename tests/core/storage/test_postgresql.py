"""State in PostgreSQL: lost connections, transactions of unknown outcome, and errors without secrets."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest
from pydantic import SecretStr
from sqlalchemy import BigInteger, Column, Connection, Double, Identity, MetaData, Table, Text, insert, select, text

from holderlake.core.storage.postgresql import ConnectionLost, Postgres
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.core.storage.state import PostgresState
from tests.helpers.postgres import PostgresServer, Wire

TABLES = MetaData()
CALLS = Table(
    "calls",
    TABLES,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("name", Text),
    Column("seconds", Double),
)
_NUMBERS = count(1)


def place(url: str) -> Postgres:
    return Postgres(SecretStr(url), Path("ledger.sqlite"), f"state_{next(_NUMBERS)}")


@pytest.fixture
def database(postgres_server: PostgresServer) -> PostgresState:
    return PostgresState(place(postgres_server.new_database()), TABLES)


def names(database: PostgresState) -> list[str]:
    return [name for (name,) in database.rows(select(CALLS.c.name).order_by(CALLS.c.id))]


def database_name(database: PostgresState) -> str:
    return str(database).rpartition("/")[2]


def test_rows_are_those_of_other_connections(database: PostgresState) -> None:
    other = PostgresState(database.place, TABLES)
    database.run(lambda db: db.execute(insert(CALLS), {"name": "50% of ünïts?", "seconds": 1e9 / 7}))
    assert other.rows(select(CALLS.c.name, CALLS.c.seconds)) == [("50% of ünïts?", 1e9 / 7)]
    assert not PostgresState(place(database.place.url.get_secret_value()), TABLES).rows(select(CALLS))


def test_readers_do_not_wait_for_the_writer_of_their_process(database: PostgresState) -> None:
    with database.transaction() as db:
        db.execute(insert(CALLS), {"name": "one", "seconds": 1.0})
        assert names(database) == []


def test_an_error_undoes_the_transaction(database: PostgresState) -> None:
    with pytest.raises(ZeroDivisionError), database.transaction() as db:
        db.execute(insert(CALLS), {"name": "lost", "seconds": 1.0})
        _ = 1 / 0
    with pytest.raises(DatabaseError, match=r"relation \"missing\" does not exist"):
        database.run(lambda db: db.execute(text("SELECT * FROM missing")))
    database.run(lambda db: db.execute(insert(CALLS), {"name": "kept", "seconds": 1.0}))
    assert names(database) == ["kept"]


def test_a_lost_connection_is_opened_again(database: PostgresState, postgres_server: PostgresServer) -> None:
    for name in ("one", "two"):
        database.run(lambda db, name=name: db.execute(insert(CALLS), {"name": name, "seconds": 1.0}))
        postgres_server.end_sessions(database_name(database))
    assert names(database) == ["one", "two"]


def test_work_is_repeated_if_the_connection_breaks_in_the_middle(
    database: PostgresState, postgres_server: PostgresServer
) -> None:
    attempts = []

    def work(db: Connection) -> None:
        attempts.append(1)
        db.execute(insert(CALLS), {"name": "first", "seconds": 1.0})
        if len(attempts) == 1:
            postgres_server.end_sessions(database_name(database))
        db.execute(insert(CALLS), {"name": "second", "seconds": 1.0})

    database.run(work)
    assert len(attempts) == 2
    assert names(database) == ["first", "second"]


def test_work_is_not_repeated_if_only_the_reply_to_the_commit_is_lost(postgres_server: PostgresServer) -> None:
    with Wire(postgres_server.port) as wire:
        url = postgres_server.new_database().replace(f":{postgres_server.port}/", f":{wire.port}/")
        database = PostgresState(place(url), TABLES)
        wire.loses_next_commit = True
        assert database.run(lambda db: len([db.execute(insert(CALLS), {"name": "once", "seconds": 1.0})])) == 1
        assert not wire.loses_next_commit
        assert names(database) == ["once"]


@pytest.mark.long
def test_a_server_that_stays_away_is_reported(own_postgres: PostgresServer) -> None:
    database = PostgresState(replace(place(own_postgres.url()), bridged_seconds=2.0), TABLES)
    own_postgres.stop()
    with pytest.raises(ConnectionLost) as caught:
        names(database)
    text = str(caught.value)
    assert "connection refused" in text
    assert "then try again" in text
    assert "\n" not in text
    own_postgres.start()
    assert names(database) == []


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://keeper:{secret}@127.0.0.1:{port}/postgres", "rejects the user or password"),
        ("postgresql://keeper:{password}@127.0.0.1:{port}/absent", "database or user does not exist"),
        ("postgresql://keeper:{secret}@127.0.0.1:1/postgres", "connection refused"),
        ("postgresql://keeper:{secret}@127.0.0.1:port/postgres", "invalid|no connection"),
        ("postgresql://keeper:{secret}@[127.0.0.1/postgres", "invalid URL"),
        ("postgresql://keeper:one@{secret}@127.0.0.1:1/postgres", "host name cannot be resolved"),
        ("postgresql:keeper:{secret}@host/postgres", "invalid"),
        ("{secret}", "invalid"),
    ],
)
def test_an_unusable_url_is_reported_without_its_password(
    postgres_server: PostgresServer, url: str, reason: str
) -> None:
    secret = "s3cret-word"
    filled = url.format(secret=secret, port=postgres_server.port, password=quote(postgres_server.password, safe=""))
    with pytest.raises(DatabaseError, match=reason) as caught:
        PostgresState(place(filled), TABLES)
    assert "state.url" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert secret not in f"{caught.value}{place(filled)!r}"


def test_missing_rights_are_reported_at_once(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    postgres_server.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    as_guest = f"postgresql://guest:guest@127.0.0.1:{postgres_server.port}/{url.rpartition('/')[2]}"
    with pytest.raises(DatabaseError, match="permission denied for database"):
        PostgresState(place(as_guest), TABLES)


def test_tables_of_a_later_format_are_refused(database: PostgresState) -> None:
    PostgresState(database.place, TABLES, 2)
    message = "has format 2, and this version of Holderlake reads format 1: install the newer version"
    with pytest.raises(DatabaseError, match=message):
        PostgresState(database.place, TABLES, 1)
