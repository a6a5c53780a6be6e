"""Partitions that were computed before the own store changed are shown everywhere, and one command renews them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holderlake.core.warehouse.warehouse import Warehouse
from tests.helpers.commands import holderlake

pytestmark = pytest.mark.integration

TOKEN = f"0x{0xDD:040x}"
BEGIN = datetime(2026, 1, 1)
INSTANTS = [BEGIN + timedelta(days=days) for days in (4, 14, 24, 34)]
FAMILIES = {"addresses", "chains", "holders", "maps", "subgraphs", "tokens"}
EVERY_FAMILY = ("backfill", *("--from", "2026-01-05", "--to", "2026-02-05", "--every", "10d"))
Move = tuple[int, int, int, int]
"""Days after the beginning, sender and receiver (0 mints), and value."""
HISTORY: list[Move] = [(0, 0, 1, 1_000), (10, 1, 2, 300), (30, 1, 3, 100)]
LATE: Move = (20, 2, 4, 50)


class Home:
    """A home over an own store, whose commands run in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"HOLDERLAKE_HOME": str(folder), "HOLDERLAKE_CONFIG": str(folder / "holderlake.toml")}
        (folder / "holderlake.toml").write_text(
            f'[provider]\nlocal = "store"\n[watchlist]\neth = ["{TOKEN}"]\n'
            f'[address_sets.few]\nchain = "eth"\naddresses = ["{wallet(1)}", "{wallet(2)}"]\n'
        )

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> Any:
        done = holderlake(*arguments, env=self.environment | dict(env or {}))
        assert done.returncode == 0, done.stderr
        return done

    def json(self, *arguments: str, env: Mapping[str, str] | None = None) -> Any:
        return json.loads(self.run(*arguments, "--json", env=env).stdout)

    def add(self, name: str, moves: list[Move]) -> str:
        lines = [
            f"eth,{TOKEN},{wallet(a)},{wallet(b)},{value}{18 * '0'},{(BEGIN + timedelta(days=day)).isoformat()}Z,"
            f"{day * 100 + number},0x{day * 100 + number:064x},0"
            for number, (day, a, b, value) in enumerate(moves)
        ]
        header = "chain,token_address,from_address,to_address,value,block_time,block_number,tx_hash,log_index"
        file = self.folder / f"{name}.csv"
        file.write_text("\n".join([header, *lines]))
        return str(self.run("import", "files", str(file)).stderr)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in Warehouse(self.folder / "warehouse.duckdb").query(sql).to_pylist()]

    def stale(self) -> set[tuple[str, datetime]]:
        return set(self.rows("SELECT family, timestamp FROM data_quality WHERE issue = 'source_changed'"))


def wallet(number: int) -> str:
    return f"0x{number:040x}"


def balances(moves: list[Move], at: datetime) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for day, sender, receiver, value in moves:
        if BEGIN + timedelta(days=day) <= at:
            counted[wallet(receiver)] += value
            counted[wallet(sender)] -= value
    return {address: value for address, value in counted.items() if value > 0}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.add("history", HISTORY)
    made.run(*EVERY_FAMILY)
    return made


def test_an_import_of_the_past_makes_exactly_the_later_partitions_stale(home: Home) -> None:
    assert home.stale() == set()
    said = home.add("late", [LATE])
    later = [at for at in INSTANTS if at >= BEGIN + timedelta(days=LATE[0])]
    count = len(later) * len(FAMILIES)
    assert f"{count} partitions were computed before your store changed; 'holderlake backfill --stale'" in said
    assert home.stale() == {(family, at) for family in FAMILIES for at in later}
    assert {
        line["family"]: line["stale"] for line in home.json("plan", *EVERY_FAMILY[1:])["families"]
    } == dict.fromkeys(FAMILIES, len(later))
    findings = {line["what"]: line for line in json.loads(holderlake("doctor", "--json", env=home.environment).stdout)}
    assert findings["computed partitions"]["found"] == f"{count} partitions computed before your store changed"

    written = dict(home.rows("SELECT family || timestamp, written_at FROM partitions"))
    report = home.json("backfill", "--stale")
    assert report == {"partitions": dict.fromkeys(FAMILIES, len(later)), "left": 0}
    assert home.stale() == set()
    changed = home.rows("SELECT family || timestamp, family, timestamp, written_at FROM partitions")
    assert {(row[1], row[2]) for row in changed if written[row[0]] != row[3]} == {
        (family, at) for family in FAMILIES for at in later
    }
    for at in INSTANTS:
        held = dict(home.rows(f"SELECT address, amount FROM holders WHERE timestamp = '{at}'"))
        assert held == balances([*HISTORY, LATE], at)


def test_an_own_store_bills_nothing(home: Home) -> None:
    plan = home.json("plan", "--from", "2026-03-01", "--to", "2026-03-05")
    assert (plan["free"], plan["credits_hundredths"], plan["month_left_hundredths"]) == (True, 0, None)
    assert plan["calls"] > 0
    ((calls, billed),) = home.rows("SELECT sum(calls), sum(billed) FROM spending")
    assert calls > 0
    assert billed == 0
    assert "0.00" in home.run("credits").stdout


def test_transfers_after_the_last_partition_make_none_stale(home: Home) -> None:
    assert "before your store changed" not in home.add("new", [(300, 1, 5, 1)])
    assert home.stale() == set()


def test_labels_and_thresholds_make_all_stale_until_a_backfill(home: Home) -> None:
    everything = {(family, at) for family in FAMILIES for at in INSTANTS}
    labels = home.folder / "labels.csv"
    labels.write_text(f"address,name,is_cex\n{wallet(2)},Northgate 7,true\n")
    home.run("import", "labels", str(labels))
    assert home.stale() == everything
    home.run(*EVERY_FAMILY)
    assert home.stale() == set()
    named = home.rows("SELECT DISTINCT timestamp FROM map_nodes WHERE label = 'Northgate 7' ORDER BY ALL")
    assert named == [(at,) for at in INSTANTS[1:]]
    assert home.rows("SELECT DISTINCT is_cex FROM addresses WHERE address = " + repr(wallet(2))) == [(True,)]
    threshold = {"HOLDERLAKE_ENGINE__THRESHOLDS__SUPERNODE_DEGREE": "2"}
    assert home.json("backfill", "--stale", env=threshold)["partitions"] == dict.fromkeys(FAMILIES, len(INSTANTS))
    assert home.rows("SELECT DISTINCT rules ->> 'supernode_degree' FROM maps") == [("2",)]
