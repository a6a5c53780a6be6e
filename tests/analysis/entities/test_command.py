"""``holderlake store entities`` over the user's own store, and the tables that the next load makes of it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.engine.records import TRANSFERS, Label
from holderlake.engine.store.store import Store
from holderlake.sources.store import stored_transfers
from tests.analysis.entities.transfers import paid, write
from tests.helpers.lakes import query, write_holders

WALLETS = tuple(f"0x{digit * 40}" for digit in "123")
OWNER, APP = f"0x{'a' * 40}", f"0x{'b' * 40}"
ROWS = [
    *(paid(OWNER, one, 10, tx="0xt") for one in WALLETS),
    *(paid(one, APP, 9_000 + minute, 1) for minute in (0, 100, 200, 300) for one in WALLETS),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose store has four wallets of one owner, who use a contract with a label."""
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    known = {
        "token_standard": "native",
        "token_id": None,
        "block_number": 1,
        "time_kind": "exact",
        "log_index_kind": "exact",
        "source": "test",
    }
    rows = [known | row | {"log_index": number} for number, row in enumerate(ROWS)]
    with Store(tmp_path / "engine") as store:
        store.add_transfers(pa.Table.from_pylist(rows, TRANSFERS), "test")
        store.add_labels([Label(APP, "eth", "s", "App")])
    return tmp_path


@pytest.mark.long
def test_the_entities_of_the_own_store_are_tables_after_the_next_load(home: Path) -> None:
    warehouse = Warehouse(home / "warehouse.duckdb", lambda: stored_transfers(home / "engine"))
    warehouse.load(Lake(home / "lake"))
    assert warehouse.query("FROM entities").num_rows == 0
    ended = CliRunner().invoke(app, ["store", "entities", "--json"])
    assert ended.exit_code == 0, ended.output
    report = json.loads(ended.stdout)
    assert (report["entities"], report["joined"], report["links"]["disperse"]) == (1, 4, 1)
    warehouse.load(Lake(home / "lake"))
    found = warehouse.query("SELECT entity, address, kinds FROM entities ORDER BY address").to_pylist()
    assert [(row["entity"], row["address"]) for row in found] == [(WALLETS[0], one) for one in (*WALLETS, OWNER)]
    assert found[0]["kinds"] == ["disperse", "first_funder", "in_step"]
    behind = warehouse.query(f"SELECT kind, from_address FROM link_transfers('{WALLETS[1]}')").to_pylist()
    funding = {(row["kind"], row["from_address"]) for row in behind if row["kind"] != "direct"}
    assert funding == {("disperse", OWNER), ("first_funder", OWNER)}


def test_owners_are_unknown_before_the_first_search(home: Path) -> None:
    lake, day = Lake(home / "lake"), datetime(2026, 5, 1)
    write_holders(lake, "eth", day, {"0xt": {WALLETS[0]: 3, WALLETS[1]: 2, APP: 1}})
    warehouse = Warehouse(home / "warehouse.duckdb", lambda: stored_transfers(home / "engine"))
    warehouse.load(lake)
    owners = "SELECT owner, wallets, CAST(amount AS INTEGER), searched IS NULL FROM owners_as_of(?) ORDER BY rank"
    assert query(warehouse, owners, day) == [
        (WALLETS[0], None, 3, True),
        (WALLETS[1], None, 2, True),
        (APP, None, 1, True),
    ]
    assert CliRunner().invoke(app, ["store", "entities"]).exit_code == 0
    warehouse.load(lake)
    assert query(warehouse, owners, day) == [(WALLETS[0], 2, 5, False), (APP, 1, 1, False)]


def test_complete_balances_by_owner_have_figures_of_wallets_and_of_owners(home: Path) -> None:
    known = {"token_standard": "erc20", "token_id": None, "block_number": 1, "source": "test"}
    exact = {
        "time_kind": "exact",
        "log_index_kind": "exact",
        "chain": "eth",
        "token_address": "0xt",
        "block_time": 1_700_000_000,
    }
    amounts = {WALLETS[0]: 2**255, WALLETS[1]: 2**254, APP: 2**254 + 3, f"0x{'c' * 40}": 7}
    minted = [
        known | exact | {"from_address": ZERO_ADDRESS, "to_address": address, "value": str(amount), "log_index": place}
        | {"tx_hash": "0xm"}
        for place, (address, amount) in enumerate(amounts.items())
    ]  # fmt: skip
    with Store(home / "engine") as store:
        store.add_transfers(pa.Table.from_pylist(minted, TRANSFERS), "test")
        store.add_labels([Label(f"0x{'c' * 40}", "eth", "s", "Kite", is_cex=True)])
    assert CliRunner().invoke(app, ["store", "entities"]).exit_code == 0
    warehouse = Warehouse(home / "warehouse.duckdb", lambda: stored_transfers(home / "engine"))
    warehouse.load(Lake(home / "lake"))
    owners = query(
        warehouse,
        "SELECT rank, owner, kind, wallets, raw_amount FROM holders_by_owner('0xt', '2026-05-01') ORDER BY rank",
    )
    assert owners == [
        (1, WALLETS[0], None, 2, str(2**255 + 2**254)),
        (2, APP, None, 1, str(2**254 + 3)),
        (3, f"0x{'c' * 40}", "cex", 1, "7"),
    ]
    figures = query(
        warehouse,
        "SELECT holders, number, round(top_10_share, 9), round(gini_index, 9), round(herfindahl_hirschman_index, 9), "
        "nakamoto_coefficient FROM concentration_by_owner('0xt', '2026-05-01') ORDER BY holders",
    )
    assert figures == [
        ("certain owners", 2, 1.0, 0.25, 0.625, 1),
        ("owners", 2, 1.0, 0.25, 0.625, 1),
        ("wallets", 3, 1.0, 0.166666667, 0.375, 1),
    ]


def test_files_are_read_in_place_of_the_store_and_results_go_to_a_folder(home: Path) -> None:
    path = write(home, ROWS)
    ended = CliRunner().invoke(app, ["store", "entities", path, "--out", "found", "--confidence", "0.6"])
    assert ended.exit_code == 0, ended.output
    assert "Entities: 1, with 5 wallets (confidence 0.6 or more)" in ended.stdout
    assert sorted(file.name for file in (home / "found").iterdir()) == [
        "cluster_links.parquet",
        "entities.parquet",
        "entity_joins.parquet",
        "entity_searches.parquet",
    ]


def test_a_file_that_is_no_table_is_named(home: Path) -> None:
    (home / "notes.txt").write_text("notes")
    ended = CliRunner().invoke(app, ["store", "entities", "notes.txt"])
    assert ended.exit_code
    assert "notes.txt can't be read as transfers" in str(ended.exception)


def test_confidences_are_measured_on_groups_of_the_user(home: Path) -> None:
    payers = [f"0x{number:040x}" for number in range(1_000, 13_000, 1_000)]
    paid_wallets = {payer: [f"{payer[:-1]}{place}" for place in range(1, 5)] for payer in payers}
    path = write(home, [paid(payer, one, 10, tx=payer) for payer, wallets in paid_wallets.items() for one in wallets])
    strangers = payers[:3]  # whom they pay belongs to others
    lines = [
        f"{one.upper().replace('X', 'x')},{one if payer in strangers else payer}"
        for payer, wallets in paid_wallets.items()
        for one in (payer, *wallets)
    ]
    Path("groups.csv").write_text("\n".join(["address,group", *lines]))
    command = ["store", "entities", path, "--confidence", "0.72", "--json"]
    ended, stated = (
        json.loads(CliRunner().invoke(app, [*command, *more]).stdout) for more in (["--groups", "groups.csv"], [])
    )
    assert {row["kind"]: (row["right"], row["pairs"], row["used"]) for row in ended["confidences"]} == {
        "disperse": (90, 120, 0.75),
        "first_funder": (90, 120, 0.75),
    }
    assert (ended["entities"], stated["entities"]) == (12, 0)


def test_groups_without_the_columns_are_named(home: Path) -> None:
    Path("groups.csv").write_text("wallet,owner\n0x1,1")
    ended = CliRunner().invoke(app, ["store", "entities", write(home, ROWS), "--groups", "groups.csv"])
    assert "groups.csv needs the columns address and owner; it has wallet, owner" in str(ended.exception)
