"""Transfers of the user's own store in the warehouse: exact rows, as of the load, and sums by period."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.tables import amount_columns
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse, WarehouseError
from holderlake.engine.records import TRANSFERS, Label, TokenInfo
from holderlake.engine.store.store import Store
from holderlake.sources.store import stored_transfers
from tests.engine.world import DEAD, UINT256, Row, transfer
from tests.helpers.lakes import DAYS, FETCHED_AT, map_tables, rows, write

TOKEN, OTHER = ("eth", "0xaa"), ("bsc", "0xbb")
DAY = 86_400
BEGIN = 1_700_000_000 // DAY * DAY


class Home:
    """A store, an empty lake and a warehouse with the store's transfers."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "engine")
        self.lake = Lake(folder / "lake")
        self.warehouse = Warehouse(folder / "warehouse.duckdb", lambda: stored_transfers(folder / "engine"))

    def add(self, *rows: Row) -> None:
        self.store.add_transfers(pa.Table.from_pylist(list(rows), TRANSFERS), "test")

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        self.warehouse.load(self.lake)
        with self.warehouse.connect() as connection:
            return connection.execute(sql, list(parameters)).fetchall()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    with made.store:
        yield made


def names_of(home: Home, *keys: tuple[str, str], decimals: int = 0) -> None:
    home.store.add_tokens([TokenInfo(*key, key[1].upper(), key[1][2:], decimals) for key in keys])


@pytest.mark.long
def test_every_stored_transfer_is_a_typed_row(home: Home) -> None:
    names_of(home, TOKEN, decimals=6)
    home.add(
        transfer("mint -> a", 2_500_000, BEGIN, token=TOKEN, tx_hash="0x1", log_index=7, block_number=18),
        transfer("a -> b", 1, BEGIN + 3_600, token=TOKEN, tx_hash="0x2"),
    )
    rows = "SELECT chain, symbol, block_time, block_number, log_index, tx_hash, from_address, amount FROM transfers"
    assert home.query(f"{rows} ORDER BY block_time") == [
        ("eth", "aa", at(BEGIN), 18, 7, "0x1", ZERO_ADDRESS, Decimal("2.5")),
        ("eth", "aa", at(BEGIN + 3_600), BEGIN + 3_600, 0, "0x2", "a", Decimal("0.000001")),
    ]


@pytest.mark.later(integration=2, long=4)
@pytest.mark.parametrize("decimals", [0, 6, 18, 24, 77])
@pytest.mark.parametrize("raw", [0, 1, 10**18, 10**38 - 1, 10**38, 12 * 10**40, UINT256])
def test_amounts_of_any_size_are_exact(small: Home, decimals: int, raw: int) -> None:
    ((decimal, exact),) = small.query(
        "SELECT amount, amount_exact FROM transfers WHERE token_address = ? AND raw_amount = ?",
        f"0x{decimals}",
        str(raw),
    )
    assert (decimal is None) != (exact is None)
    assert Fraction(exact or decimal) == Fraction(raw, 10**decimals)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Tokens with 0, 6, 18, 24 and 77 decimals, each with small and large transfers."""
    made = Home(tmp_path_factory.mktemp("amounts"))
    with made.store:
        for decimals in (0, 6, 18, 24, 77):
            key = ("eth", f"0x{decimals}")
            names_of(made, key, decimals=decimals)
            values = (0, 1, 10**18, 10**38 - 1, 10**38, 12 * 10**40, UINT256)
            made.add(*(transfer("mint -> a", value, BEGIN + at, token=key) for at, value in enumerate(values)))
        yield made


@pytest.mark.long
def test_rows_stay_those_of_the_load_though_the_store_replaced_its_files(home: Home) -> None:
    home.add(transfer("mint -> a", 5, BEGIN, token=TOKEN))
    home.warehouse.load(home.lake)
    before = set(home.store.files())
    home.add(*(transfer("a -> b", 1, BEGIN + at, token=TOKEN) for at in range(1, 9)))
    assert not before & set(home.store.files())
    assert home.warehouse.query("SELECT count(*) AS n FROM transfers").to_pylist() == [{"n": 1}]


@pytest.mark.long
def test_a_load_without_a_change_of_the_store_writes_nothing(home: Home) -> None:
    home.add(transfer("mint -> a", 5, BEGIN, token=TOKEN))
    home.warehouse.load(home.lake)
    version = home.warehouse.version
    home.warehouse.load(home.lake)
    assert home.warehouse.version == version


@pytest.mark.long
def test_old_links_are_removed(home: Home) -> None:
    for at_ in range(5):
        home.add(transfer("mint -> a", 5, BEGIN + at_, token=TOKEN))
        home.warehouse.load(home.lake)
    folders = list(home.warehouse.path.with_name("warehouse.duckdb.transfers").iterdir())
    assert len(folders) == 2


@pytest.mark.long
def test_without_a_store_the_view_has_no_rows(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse.duckdb", lambda: stored_transfers(tmp_path / "missing"))
    warehouse.load(Lake(tmp_path / "lake"))
    assert warehouse.query("FROM transfers").num_rows == 0


@pytest.mark.long
def test_a_damaged_store_leaves_the_transfers_of_the_last_load(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    home.add(transfer("mint -> a", 5, BEGIN, token=TOKEN))
    home.warehouse.load(home.lake)
    for file in home.store.root.glob("catalog*"):
        file.write_bytes(b"damaged")
    assert home.query("SELECT count(*) FROM transfers") == [(1,)]
    assert "can't be read" in caplog.text


@pytest.mark.long
def test_a_users_query_reads_transfers_but_no_other_file(home: Home, tmp_path: Path) -> None:
    home.add(transfer("mint -> a", 5, BEGIN, token=TOKEN))
    home.warehouse.load(home.lake)
    (own,) = home.store.files()
    assert home.warehouse.read("FROM transfers").num_rows == 1
    with pytest.raises(WarehouseError, match="--files"):
        home.warehouse.read(f"FROM '{own}'")


@pytest.mark.long
def test_a_condition_on_the_token_reads_only_its_files(home: Home) -> None:
    home.add(*(transfer("mint -> a", 5, BEGIN, token=("eth", f"0x{n}")) for n in range(20)))
    ((_, plan),) = home.query("EXPLAIN ANALYZE SELECT max(tx_hash) FROM transfers WHERE token_address = '0x7'")
    assert "Total Files Read: 1" in plan


@pytest.mark.long
def test_an_address_and_a_link_show_their_transfers_with_hashes(home: Home) -> None:
    home.add(
        transfer("mint -> 0xA".lower(), 9, BEGIN, token=TOKEN, tx_hash="0x1"),
        transfer("0xa -> 0xb", 4, BEGIN + 1, token=TOKEN, tx_hash="0x2"),
        transfer("0xb -> 0xa", 1, BEGIN + 2, token=OTHER, tx_hash="0x3"),
        transfer("0xa -> 0xa", 1, BEGIN + 3, token=TOKEN, tx_hash="0x4"),
        transfer("0xb -> 0xc", 1, BEGIN + 4, token=TOKEN, tx_hash="0x5"),
    )
    found = home.query("SELECT tx_hash, direction, counterparty FROM transfers_of('0xA') ORDER BY 1")
    assert found == [
        ("0x1", "received", ZERO_ADDRESS),
        ("0x2", "sent", "0xb"),
        ("0x3", "received", "0xb"),
        ("0x4", "self", "0xa"),
    ]
    assert home.query("SELECT tx_hash FROM transfers_between('0xb', '0xA') ORDER BY 1") == [("0x2",), ("0x3",)]


def test_labels_of_a_time_are_those_of_their_periods(home: Home) -> None:
    home.add(transfer("mint -> 0xa", 5, BEGIN, token=TOKEN))
    home.store.add_labels(
        [
            Label("0xa", None, "s", "Ann", valid_to=BEGIN + DAY - 1),
            Label("0xa", None, "s", "Bob", is_cex=True, valid_from=BEGIN + 2 * DAY),
            Label("0xa", None, "other", "Low", precedence=-1, valid_from=BEGIN + DAY, valid_to=BEGIN + 9 * DAY - 1),
            Label("0xb", None, "s", "Cid"),
        ]
    )
    periods = "SELECT kind, label, valid_from, valid_to FROM label_periods WHERE address = '0xa'"
    assert home.query(f"{periods} ORDER BY valid_from NULLS FIRST") == [
        (None, "Ann", None, at(BEGIN + DAY - 1)),
        (None, "Low", at(BEGIN + DAY), at(BEGIN + 2 * DAY - 1)),
        ("cex", "Bob", at(BEGIN + 2 * DAY), None),
    ]
    named = "SELECT address, label FROM labels_as_of(?) WHERE label IS NOT NULL ORDER BY ALL"
    assert home.query(named, at(BEGIN + DAY - 1)) == [("0xa", "Ann"), ("0xb", "Cid")]
    assert home.query(named, at(BEGIN + DAY)) == [("0xa", "Low"), ("0xb", "Cid")]
    assert home.query(named, at(BEGIN + 2 * DAY)) == [("0xa", "Bob"), ("0xb", "Cid")]
    assert home.query(named, str(at(BEGIN + DAY - 1).date())) == [("0xa", "Ann"), ("0xb", "Cid")]
    latest = "SELECT address, kind, label FROM stored_labels WHERE label IS NOT NULL ORDER BY ALL"
    assert home.query(latest) == [("0xa", "cex", "Bob"), ("0xb", None, "Cid")]
    marked = "SELECT address, kind FROM special_addresses_as_of(?) WHERE kind <> 'burn'"
    assert home.query(marked, at(BEGIN + 2 * DAY - 1)) == [("0xaa", "contract")]
    assert sorted(home.query(marked, at(BEGIN + 2 * DAY))) == [("0xa", "cex"), ("0xaa", "contract")]


def test_flows_have_the_labels_of_the_transfers_time(home: Home) -> None:
    home.add(*(transfer("mint -> ex", 5, BEGIN + day * DAY, token=TOKEN) for day in range(4)))
    home.store.add_labels(
        [Label("ex", None, "s", "Kite", is_cex=True, valid_from=BEGIN + DAY, valid_to=BEGIN + 3 * DAY - 1)]
    )
    found = home.query("SELECT from_kind, to_kind, to_label FROM flows('0xaa', 'day') ORDER BY period")
    assert found == [("mint", "other", None), *[("mint", "exchange", "Kite")] * 2, ("mint", "other", None)]


def test_a_label_of_a_chain_holds_on_that_chain_alone(home: Home) -> None:
    home.add(transfer("mint -> ex", 5, BEGIN, token=TOKEN), transfer("mint -> ex", 5, BEGIN, token=OTHER))
    home.store.add_labels(
        [
            Label("ex", "eth", "s", "Kite", is_cex=True),
            Label("both", None, "s", "Both"),
            Label("both", "bsc", "s", "BSC"),
        ]
    )
    labels = "SELECT chain, address, kind, label FROM stored_labels WHERE label IS NOT NULL ORDER BY ALL"
    assert home.query(labels) == [
        ("bsc", "both", None, "BSC"),
        ("eth", "both", None, "Both"),
        ("eth", "ex", "cex", "Kite"),
    ]
    assert home.query("SELECT chain, address FROM exchanges") == [("eth", "ex")]


def test_addresses_without_an_owner_are_burn_in_every_view(home: Home) -> None:
    home.add(transfer("mint -> a", 5, BEGIN, token=TOKEN), transfer(f"a -> {DEAD}", 1, BEGIN + 1, token=TOKEN))
    listed = {"token_address": "0xaa", "rank": 1, "address": DEAD, "share": 0.1, "is_contract": True}
    listed |= amount_columns("amount", Decimal(1))
    table = rows("holders", "eth", DAYS[0], [listed], FETCHED_AT)
    write(home.lake, "holders", "eth", DAYS[0], {"holders": table}, {"0xaa"})
    kinds = home.query("SELECT DISTINCT kind FROM special_addresses WHERE address IN (?, ?)", ZERO_ADDRESS, DEAD)
    assert kinds == [("burn",)]
    assert home.query("SELECT from_kind, to_kind FROM flows('0xaa', 'day') ORDER BY ALL") == [
        ("mint", "other"),
        ("other", "burn"),
    ]


@pytest.mark.long
def test_stored_tokens_say_where_the_data_end(home: Home) -> None:
    names_of(home, TOKEN, decimals=6)
    home.add(transfer("mint -> a", 5, BEGIN, token=TOKEN), transfer("a -> b", 5, BEGIN + DAY, token=TOKEN))
    assert home.query("FROM stored_tokens") == [
        ("eth", "0xaa", "aa", "0XAA", 6, False, "erc20", 2, at(BEGIN), at(BEGIN + DAY))
    ]


# Flows


@pytest.mark.integration
@pytest.mark.parametrize(
    "each", ["hour", "day", pytest.param("week", marks=pytest.mark.long), pytest.param("month", marks=pytest.mark.long)]
)
def test_flows_add_up_transfers_between_groups_exactly(world: Home, each: str) -> None:
    found = world.query(
        "SELECT period, from_kind, from_cluster_id, from_label, to_kind, to_cluster_id, to_label, transfers, senders,"
        " receivers, exact_amount(amount, amount_exact) FROM flows('0xAA', ?) ORDER BY ALL",
        each,
    )
    sums: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in MOVES:
        sums[
            begin(row["block_time"], each), *group(row["from_address"], "mint"), *group(row["to_address"], "burn")
        ].append(row)
    expected = [
        (
            *key,
            len(rows),
            len({row["from_address"] for row in rows}),
            len({row["to_address"] for row in rows}),
            str(sum(int(row["value"]) for row in rows)),
        )
        for key, rows in sums.items()
    ]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_flows_can_be_limited_in_time(world: Home) -> None:
    since, until = at(BEGIN + 10 * DAY), at(BEGIN + 19 * DAY)
    ((limited,),) = world.query("SELECT sum(transfers) FROM flows('0xaa', 'day', since := ?, until := ?)", since, until)
    assert limited == sum(since <= at(row["block_time"]) < at(BEGIN + 20 * DAY) for row in MOVES)


GROUPS = {
    **dict.fromkeys(["w1", "w2"], ("cluster", 1, None)),
    **dict.fromkeys(["w3", "w4"], ("cluster", 2, None)),
    "ex": ("exchange", None, "Bourse"),
    "pool": ("exchange", None, "Pool"),
    "vault": ("contract", None, "Vault"),
}
_RANDOM = random.Random(22)
_NAMES = ["w1", "w2", "w3", "w4", "w5", "w6", "ex", "pool", "vault"]
MOVES = [
    transfer(
        f"{_RANDOM.choice([*_NAMES, 'mint'])} -> {_RANDOM.choice([*_NAMES, 'burn', 'dead'])}",
        _RANDOM.choice([1, 10**6, 10**21, UINT256 // 400]),
        BEGIN + _RANDOM.randrange(100 * DAY),
        token=TOKEN,
    )
    for _ in range(400)
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """400 transfers of one token over 100 days; a map with two clusters; labels in the store and on the map."""
    made = Home(tmp_path_factory.mktemp("flows"))
    with made.store:
        names_of(made, TOKEN, OTHER)
        made.add(*MOVES, transfer("w1 -> w3", 1, BEGIN, token=OTHER))
        made.store.add_labels(
            [
                Label("ex", "eth", "test", "Bourse", is_cex=True),
                Label("pool", "eth", "test", "Pool", is_dex=True, is_contract=True),
                Label("vault", None, "test", "Vault", is_contract=True),
                Label("w1", "eth", "test", "A cluster's exchange", is_cex=True),
                Label("w5", "eth", "test", "A name only"),
            ]
        )
        older = datetime(2025, 1, 1)
        for instant, clusters in ((older, [["w1", "w5"]]), (datetime(2025, 2, 1), [["w1", "w2"], ["w3", "w4"]])):
            write(made.lake, "maps", "eth", instant, map_tables("eth", instant, {TOKEN[1]: clusters}), {TOKEN[1]})
        yield made


def group(address: str, without_owner: str) -> tuple[str, int | None, str | None]:
    return (
        (without_owner, None, None) if address in {ZERO_ADDRESS, DEAD} else GROUPS.get(address, ("other", None, None))
    )


def begin(second: int, each: str) -> datetime:
    import pandas as pd

    period = {"hour": "h", "day": "D", "week": "W", "month": "M"}[each]
    return pd.Timestamp(at(second)).to_period(period).start_time.to_pydatetime()


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC).replace(tzinfo=None)


# The end of the data


@pytest.mark.long
def test_maps_later_than_the_stores_transfers_are_flagged(home: Home) -> None:
    names_of(home, TOKEN)
    home.add(*(transfer("mint -> a", 1, BEGIN + hour * 3600, token=TOKEN) for hour in range(10)))
    first = datetime.fromtimestamp(BEGIN, UTC).replace(tzinfo=None)
    days = [first + timedelta(days=day) for day in (1, 6, 8, 700)]
    for day in days:
        write(home.lake, "maps", "eth", day, map_tables("eth", day, {"0xaa": []}), {"0xaa"})
    assert home.query("SELECT timestamp, family, last_transfer FROM after_source_end ORDER BY ALL") == [
        (day, "maps", days[0] - timedelta(hours=15)) for day in days[2:]
    ]
    listed = "SELECT severity, timestamp, family, subject, found FROM data_quality WHERE issue = 'after_source_end'"
    assert home.query(listed) == [("warning", days[2], "maps", "0xaa", 2.0)]


@pytest.mark.long
def test_a_token_with_a_transfer_a_month_is_not_flagged_after_a_month(home: Home) -> None:
    names_of(home, TOKEN)
    home.add(*(transfer("mint -> a", 1, BEGIN + month * 30 * DAY, token=TOKEN) for month in range(10)))
    last = datetime.fromtimestamp(BEGIN + 270 * DAY, UTC).replace(tzinfo=None)
    for days in (40, 400):
        day = last + timedelta(days=days)
        write(home.lake, "maps", "eth", day, map_tables("eth", day, {"0xaa": []}), {"0xaa"})
    assert home.query("SELECT days_after FROM after_source_end") == [(400,)]


# Names


@pytest.mark.long
def test_own_labels_name_addresses_in_the_warehouse(home: Home) -> None:
    """They win over the names of answers, and mark exchanges; a store without transfers has labels too."""
    write_labelled(home.lake, DAYS[0], FETCHED_AT, e1="Hot wallet 7", e2="Fund", e3=None)
    home.store.add_labels([Label("e1", None, "hand:mine", "Kite Exchange", is_cex=True)])
    assert home.query("FROM address_names WHERE chain = 'eth' ORDER BY address") == [
        ("eth", "e1", "Kite Exchange", True),
        ("eth", "e2", "Fund", False),
    ]
    assert home.query("SELECT address, kind, label FROM exchanges") == [("e1", "cex", "Kite Exchange")]
    assert home.query("SELECT label FROM address_history('e1')") == [("Kite Exchange",)]
    assert home.query("SELECT count(*) FROM transfers") == [(0,)]


@pytest.mark.long
def test_a_name_is_that_of_the_newest_answer_about_any_instant(home: Home) -> None:
    """A backfill of an earlier instant brings the newer name."""
    write_labelled(home.lake, DAYS[9], FETCHED_AT, e1="Old")
    write_labelled(home.lake, DAYS[0], FETCHED_AT + timedelta(days=9), e1="New")
    assert home.query("SELECT address, label FROM address_names") == [("e1", "New")]
    assert home.query("SELECT DISTINCT label FROM address_history('e1')") == [("New",)]
    assert home.query("SELECT label FROM holding_periods") == [("New",)]


def write_labelled(lake: Lake, as_of: datetime, fetched_at: datetime, **labels: str | None) -> None:
    """Commit holders of a token, each with its label."""
    holders = [
        {"token_address": "0xaa", "rank": rank, "address": address, "share": 0.1, "label": label}
        | amount_columns("amount", Decimal(1))
        for rank, (address, label) in enumerate(labels.items(), 1)
    ]
    write(lake, "holders", "eth", as_of, {"holders": rows("holders", "eth", as_of, holders, fetched_at)}, {"0xaa"})


def test_maps_soon_after_the_stores_first_transfer_have_no_known_fresh_wallets(home: Home) -> None:
    home.add(transfer("mint -> a", 5, BEGIN, token=TOKEN))
    for days in (1, 9, 11):
        when = at(BEGIN + days * DAY)
        tables = map_tables(TOKEN[0], when, {TOKEN[1]: []})
        tables["maps"] = rows(
            "maps", TOKEN[0], when, [{"token_address": TOKEN[1], "dt_update": "2026", "fresh_wallets": 0.5}]
        )
        write(home.lake, "maps", TOKEN[0], when, tables, {TOKEN[1]})
    young = "SELECT timestamp, subject, found FROM data_quality WHERE issue = 'young_source'"
    assert home.query(young) == [(at(BEGIN + 9 * DAY), TOKEN[1], 2)]
