"""Notes about a query: old answers, and addresses in capitals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse, WarehouseError
from holderlake.presentation.dataframes import QueryNote, open_warehouse
from holderlake.presentation.query_notes import warehouse_notes
from tests.helpers.commands import holderlake
from tests.helpers.lakes import DAYS, rows, write, write_holders

MIXED = "0xAbCdEf0000000000000000000000000000000001"
TOKENS = {"0x" + "1" * 40: "OLD", "0x" + "2" * 40: "NEW"}
TWINS = ["0x" + "3" * 40, "0x" + "4" * 40]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The list of OLD is of 1 November, that of NEW of 9 November."""
    folder: Path = tmp_path_factory.mktemp("notes")
    lake, loaded = Lake(folder / "lake"), Warehouse(folder / "warehouse.duckdb")
    for (token, _), day in zip(TOKENS.items(), (DAYS[0], DAYS[8]), strict=True):
        write_holders(lake, "eth", day, {token: {"0x1": 1}})
    named = [{"token_address": token, "symbol": symbol} for token, symbol in TOKENS.items()]
    named += [{"token_address": token, "symbol": "TWIN"} for token in TWINS]
    write(lake, "tokens", "eth", DAYS[8], {"tokens": rows("tokens", "eth", DAYS[8], named)}, {*TOKENS, *TWINS})
    loaded.load(lake)
    return loaded


@pytest.mark.parametrize("sql", ["", " \n"])
def test_a_command_without_sql_says_what_is_missing(warehouse: Warehouse, sql: str) -> None:
    for arguments in (["sql", sql], ["sql"]):
        done = holderlake(*arguments, env={"HOLDERLAKE_HOME": str(warehouse.path.parent)})
        assert (done.returncode, done.stdout) == (2, "")
        assert 'there is no SQL: give it, for example holderlake sql "FROM latest_holders LIMIT 5"' in done.stderr


def test_a_report_takes_a_symbol(warehouse: Warehouse, tmp_path: Path) -> None:
    environment = {"HOLDERLAKE_HOME": str(warehouse.path.parent)}
    refused = holderlake("report", "eth", "OLDD", str(tmp_path / "a.html"), env=environment)
    assert "no token has the symbol OLDD; similar: NEW, OLD" in refused.stderr
    done = holderlake("report", "eth", "old", str(tmp_path / "a.html"), env=environment)
    assert (done.returncode, (tmp_path / "a.html").exists()) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("sql", "note"),
    [
        (
            "FROM holders_as_of('2026-11-09') WHERE token_address = token_of('old')",
            "holders_as_of('2026-11-09') answers with 2026-11-01 00:00 UTC for OLD, 9.0 days before the requested "
            "2026-11-09 23:59",
        ),
        (
            "SELECT * FROM Holders_As_Of(DATE '2026-11-20')",
            "Holders_As_Of('2026-11-20') answers with 2026-11-01 00:00 UTC for OLD, 20.0 days before the requested "
            "2026-11-20 23:59; 1 more token has an old answer",
        ),
        (
            f"FROM holders WHERE address IN ('0x1', '{MIXED}')",
            f"'{MIXED}' matches no row, because addresses in hexadecimal are stored in lower case: write "
            f"plain_address('{MIXED}')",
        ),
        (
            "FROM transfers WHERE block_time <= '2026-11-09'",
            "block_time is compared with the beginning of 2026-11-09, so that the day itself is left out: write "
            "block_time < DATE '2026-11-09' + 1 to include it",
        ),
        (
            "FROM transfers WHERE block_time BETWEEN '2026-11-01' AND DATE '2026-11-09'",
            "block_time is compared with the beginning of 2026-11-09, so that the day itself is left out: write "
            "block_time < DATE '2026-11-09' + 1 to include it",
        ),
        (
            "FROM transfers WHERE '2026-11-09' >= block_time",
            "block_time is compared with the beginning of 2026-11-09, so that the day itself is left out: write "
            "block_time < DATE '2026-11-09' + 1 to include it",
        ),
        (
            "FROM transfers WHERE block_time > DATE '2026-11-09'",
            "block_time is compared with the beginning of 2026-11-09, so that the day itself is included: write "
            "block_time >= DATE '2026-11-09' + 1 to leave it out",
        ),
        (
            "FROM transfers WHERE '2026-11-09' = block_time",
            "block_time is compared with the beginning of 2026-11-09, so that only the day's first instant matches: "
            "write CAST(block_time AS DATE) = '2026-11-09' for the day",
        ),
        (
            "SELECT count(*) FROM tokens WHERE symbol = 'old'",
            "symbol = 'old' matches no token, but OLD exists: upper and lower case matter here, and token_of takes "
            "both",
        ),
        (
            "SELECT count(*) FROM tokens WHERE symbol IN ('NEW', 'TWIN')",
            f"symbol = 'TWIN' has the rows of 2 tokens: {TWINS[0]} on eth, {TWINS[1]} on eth; name one by "
            "token_address, or group by chain and token_address",
        ),
    ],
)
def test_a_query_that_may_mislead_has_a_note(warehouse: Warehouse, sql: str, note: str) -> None:
    assert warehouse_notes(warehouse, sql) == [note]


@pytest.mark.parametrize(
    "sql",
    [
        "FROM holders_as_of('2026-11-09') WHERE token_address = token_of('new')",
        f"FROM holders WHERE address = plain_address('{MIXED}')",
        f"FROM address_history('{MIXED}')",
        f"FROM holders WHERE address = '{MIXED.lower()}'",
        "SELECT 'holders_as_of'",
        "FROM transfers WHERE block_time < '2026-11-09' AND block_time >= '2026-11-01'",
        "FROM holder_counts('new') WHERE day <= '2026-11-09'",
        "FROM transfers WHERE block_time <= TIMESTAMP '2026-11-09' - INTERVAL 365 DAY",
        "FROM transfers WHERE block_time BETWEEN '2026-11-01' AND '2026-11-09'::TIMESTAMP + INTERVAL 1 DAY",
        "FROM holders WHERE timestamp = '2026-11-09' OR timestamp > '2026-11-09'",
        "FROM tokens WHERE symbol = 'OLD'",
        f"FROM tokens WHERE symbol = 'TWIN' AND token_address = '{TWINS[0]}'",
    ],
)
def test_other_queries_have_no_note(warehouse: Warehouse, sql: str) -> None:
    assert warehouse_notes(warehouse, sql) == []


def test_python_warns_with_the_notes_of_the_command(warehouse: Warehouse) -> None:
    frames = open_warehouse(warehouse.path)
    with pytest.warns(QueryNote, match="the day itself is left out"):
        frames.arrow("SELECT * FROM transfers WHERE block_time <= ?", ["2026-11-09"])
    with pytest.warns(QueryNote, match="stored in lower case"):
        frames.arrow("FROM holders WHERE address = ?", [MIXED])


def test_an_offset_in_a_bound_text_is_refused(warehouse: Warehouse) -> None:
    frames, time = open_warehouse(warehouse.path), "2026-11-19T00:00:00+09:00"
    with pytest.raises(WarehouseError, match=r"ignores the offset of the time '2026-11-19T00:00:00\+09:00' here"):
        frames.arrow("SELECT count(*) FROM transfers WHERE block_time >= ?", [time])
    assert frames.arrow("FROM holders_as_of(?)", ["2026-11-01T12:00:00+09:00"]).num_rows == 1
    quoted_mark = "SELECT count(*) FROM transfers WHERE source <> '?' AND block_time >= instant(?)"
    assert frames.arrow(quoted_mark, [time]).num_rows == 1


def test_the_command_prints_notes_apart_from_the_rows(warehouse: Warehouse) -> None:
    sql = "SELECT days_earlier FROM holders_as_of('2026-11-09') WHERE token_address = token_of('old')"
    done = holderlake("sql", sql, "--json", env={"HOLDERLAKE_HOME": str(warehouse.path.parent)})
    assert (done.returncode, json.loads(done.stdout)) == (0, [{"days_earlier": 9.0}])
    assert "Note: holders_as_of('2026-11-09') answers with 2026-11-01" in done.stderr
