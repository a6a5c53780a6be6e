"""Real files in ``../shared/data``: each is read, and histories go from file to warehouse, counted by hand.

The journey imports the histories, serves them in one process, and ingests them over HTTP in another.
"""

from __future__ import annotations

import json
import os
import socket
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import duckdb
import httpx
import pyarrow.parquet as pq
import pytest

from holderlake.core.contract.rules import Rules
from holderlake.core.contract.times import from_unix, to_unix
from holderlake.engine.queries.items import holders_of_item
from holderlake.engine.queries.negative_balances import negative_counts
from holderlake.engine.records import Label
from holderlake.engine.store.store import Store
from holderlake.sources.labels import LabelFile, read_labels
from holderlake.sources.token_lists import read_tokens
from tests.engine.oracle import Oracle
from tests.engine.test_maps import assert_equal_to_brute_force
from tests.engine.world import UINT256, a_token, cex, dex, world
from tests.helpers.amounts import exact_amount
from tests.helpers.commands import holderlake
from tests.helpers.processes import PATIENCE, start_holderlake, wait_until
from tests.sources.reading import read_transfers

pytestmark = pytest.mark.long

ZERO = "0x" + "0" * 40
DECIMALS = {"erc20": 18, "erc721": 0}
STEPS = 10


class Server(NamedTuple):
    """A service's address, the key of the client, and a key for other requests."""

    url: str
    key: str
    other_key: str


class Home:
    """A home for the command line."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDERLAKE_", "DAGSTER_"))}
        self.environment = clean | {"HOLDERLAKE_HOME": str(folder), "DAGSTER_DISABLE_TELEMETRY": "yes"} | settings

    def run(self, *arguments: str) -> Any:
        done = holderlake(*arguments, "--json", env=self.environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def histories(shared_data: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The raw rows of the five files by token."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path in sorted((shared_data / "transfers").glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            found.setdefault((row["chain"], row["token_address"].lower()), []).append(row)
    return found


@pytest.fixture(scope="module")
def server(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A served store of everything in the real data."""
    home = Home(tmp_path_factory.mktemp("server"))
    imported = home.run("import", "files", *map(str, sorted((shared_data / "transfers").glob("*.parquet"))))
    assert sum(line["added"] for line in imported) == 60_726
    again = home.run("import", "files", *map(str, sorted((shared_data / "transfers").glob("*.parquet"))))
    assert sum(line["added"] for line in again) == 0
    home.run("import", "labels", *map(str, sorted((shared_data / "labels").iterdir())))
    key, other_key = (home.run("keys", "create", name, "--credits", "1000000")["key"] for name in ("ingest", "other"))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    log = (home.folder / "serve.log").open("w")
    process = start_holderlake("serve", "--port", str(port), env=home.environment, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: httpx.get(f"{url}/v0/chains", verify=False), process)
        yield Server(url, key, other_key)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        log.close()
    assert key not in (home.folder / "serve.log").read_text()


def _instants(rows: list[dict[str, Any]]) -> list[datetime]:
    """Ten instants, a tenth of the transfers apart; QUIDD was all burnt once, so even steps find no holders."""
    times = sorted(row["block_time"] for row in rows)
    return [from_unix(times[len(times) * (number + 1) // STEPS - 1]) for number in range(STEPS)]


@pytest.fixture(scope="module")
def lake(
    server: Server,
    histories: dict[tuple[str, str], list[dict[str, Any]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A home into which clients brought every token at ten instants: one a day at a time, the others all at once."""
    url, key, _ = server
    home = Home(tmp_path_factory.mktemp("client"), HOLDERLAKE_PROVIDER__URL=url, HOLDERLAKE_API_KEY=key)
    first, *others = histories
    moments = [part for instant in _instants(histories[first]) for part in ("--at", instant.isoformat())]
    home.run("ingest", "--chain", first[0], "--token", first[1], *moments)
    for chain, token in others:
        file = home.folder / "instants"
        file.write_text("\n".join(instant.isoformat() for instant in _instants(histories[chain, token])))
        home.run("backfill", "--chain", chain, "--token", token, "--instants", str(file))
    for path in home.folder.rglob("*"):
        if path.is_file():
            assert key.encode() not in path.read_bytes(), f"{path} holds the key"
    return home.folder


def _balances(rows: list[dict[str, Any]], as_of: datetime) -> dict[str, int]:
    """An independent recomputation from the raw rows."""
    balances: Counter[str] = Counter()
    for row in rows:
        if row["block_time"] <= to_unix(as_of):
            balances[row["from_address"].lower()] -= int(row["value"])
            balances[row["to_address"].lower()] += int(row["value"])
    return balances


def test_all_five_tokens_have_holders_and_maps_at_ten_instants(
    lake: Path, histories: dict[tuple[str, str], list[dict[str, Any]]]
) -> None:
    with duckdb.connect(str(lake / "warehouse.duckdb"), read_only=True) as warehouse:
        for table in ("holders", "maps"):
            counted = warehouse.execute(
                f"SELECT chain, token_address, count(DISTINCT timestamp) FROM {table} GROUP BY ALL"
            ).fetchall()
            assert {(chain, token): count for chain, token, count in counted} == dict.fromkeys(histories, STEPS)


def test_holder_balances_equal_a_recount_of_the_raw_rows(
    lake: Path, histories: dict[tuple[str, str], list[dict[str, Any]]]
) -> None:
    with duckdb.connect(str(lake / "warehouse.duckdb"), read_only=True) as warehouse:
        for (chain, token), rows in histories.items():
            unit = Decimal(10) ** DECIMALS[rows[0]["token_standard"]]
            for as_of in _instants(rows):
                landed = warehouse.execute(
                    "SELECT address, amount, amount_exact, share FROM holders"
                    " WHERE chain = ? AND token_address = ? AND timestamp = ? ORDER BY rank",
                    [chain, token, as_of],
                ).fetchall()
                balances = _balances(rows, as_of)
                supply = -balances.pop(ZERO)
                held = sorted(((-held, address) for address, held in balances.items() if held > 0))[:80]
                assert [(row[0], row[1]) for row in landed] == [
                    (address, Decimal(-held) / unit) for held, address in held
                ]
                for (_, amount, exact, share), (held_raw, _) in zip(landed, held, strict=True):
                    assert int(exact_amount({"a": amount, "a_exact": exact}, "a") * unit) == -held_raw
                    assert share == pytest.approx(-held_raw / supply, abs=1e-15)


def test_known_totals_of_cryptopunks_v1_and_quidd(
    server: Server, histories: dict[tuple[str, str], list[dict[str, Any]]]
) -> None:
    (punks,) = (key for key, rows in histories.items() if "Punks" in rows[0]["source"])
    (quidd,) = (key for key, _ in histories.items() if key[0] == "bsc")
    with httpx.Client(base_url=server.url, headers={"X-ApiKey": server.other_key}, timeout=None) as client:
        holders = client.get(f"/v0/tokens/holders/eth/{punks[1]}", params={"limit": 250}).json()
        assert len(holders) == 220
        top = client.get(f"/v0/tokens/holders/bsc/{quidd[1]}").json()[0]["holder_data"]
        assert top["amount"] / top["share"] == pytest.approx(6_000_000, rel=1e-12)
    supply = -_balances(histories[quidd], datetime(2026, 1, 1))[ZERO]
    assert supply == 6_000_000 * 10**18


# ---------------------------------------------------------------------- files of transfers

ROWS = {
    "helios_eth": 2_855,
    "quidd_bsc": 7_694,
    "cryptopunks_v1_eth": 20_610,
    "mooncats_eth": 14_378,
    "cyberkongz_eth": 15_189,
}


@pytest.fixture(scope="module")
def store(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An engine's store of all histories."""
    with Store(tmp_path_factory.mktemp("store")) as store:
        for name in ROWS:
            store.add_transfers(read_transfers(shared_data / "transfers" / f"{name}.parquet"), name)
        yield store


def _in_order(shared_data: Path, name: str) -> list[dict[str, Any]]:
    table = read_transfers(shared_data / "transfers" / f"{name}.parquet")
    return table.sort_by([("block_number", "ascending"), ("log_index", "ascending")]).to_pylist()


@pytest.mark.parametrize("name", ROWS)
def test_a_real_history_is_read_completely(shared_data: Path, name: str) -> None:
    path = shared_data / "transfers" / f"{name}.parquet"
    table, stored = read_transfers(path), pq.read_table(path)
    assert table.num_rows == ROWS[name]
    for column in ("value", "token_id", "block_time"):
        assert table[column].to_pylist() == stored[column].to_pylist()


def test_the_real_export_is_read_with_its_quirks(shared_data: Path) -> None:
    rows = read_transfers(shared_data / "exports" / "ethereum_etl_token_transfers.csv").to_pylist()
    assert Counter(row["token_standard"] for row in rows) == {"erc20": 89, "erc721": 8, "erc1155": 3}
    # it fills the ids of fungible tokens with 1
    assert all((row["token_id"] is None) == (row["token_standard"] == "erc20") for row in rows)
    assert {row["chain"] for row in rows} == {"eth"}
    assert (rows[0]["value"], rows[0]["block_time"]) == ("200000000", 1669606415)
    assert max(int(row["value"]) for row in rows) == 189305210314773891603553023


def test_negative_balances_show_which_real_histories_are_lossy(store: Store) -> None:
    found = {token[:6]: count for (_, token), count in negative_counts(store, datetime(2027, 1, 1)).items()}
    assert found == {"0x970a": 30, "0x7961": 37, "0x57a2": 1}


@pytest.mark.parametrize("name", ["quidd_bsc", "helios_eth"])
def test_a_real_history_is_drawn_as_by_brute_force(name: str, shared_data: Path) -> None:
    chance, rows = Random(name), _in_order(shared_data, name)
    token = (rows[0]["chain"], rows[0]["token_address"])
    seconds = sorted(row["block_time"] for row in rows)
    largest = [address for address, _ in Oracle(rows, []).holders(token, seconds[-1])[:20]]
    oracle = Oracle(
        rows,
        [a_token(token, decimals=18)],
        [cex(address) for address in chance.sample(largest, 3)] + [dex(address) for address in largest[:1]],
        Rules(supernode_degree=60, hypernode_transfers=900, time_window=7_200),
    )
    with world(*rows, tokens=oracle.tokens, labels=oracle.labels, rules=oracle.rules) as store:
        for at in [seconds[-1], *(chance.randint(seconds[len(seconds) // 10], seconds[-1]) for _ in range(3))]:
            for limit in (80, 250):
                assert_equal_to_brute_force(
                    store, oracle, token, at, limit=limit, use_magic_nodes=True, use_time_nodes=True
                )


@pytest.mark.parametrize("name", ["cryptopunks_v1_eth", "mooncats_eth"])
def test_holders_of_real_items_equal_brute_force(name: str, store: Store, shared_data: Path) -> None:
    rows, chance = _in_order(shared_data, name), Random(name)
    token = (rows[0]["chain"], rows[0]["token_address"])
    moves = Counter((row["token_id"], row["block_number"]) for row in rows)
    twice = {item for (item, _), count in moves.items() if count > 1}
    for at in (rows[len(rows) // 3]["block_time"], rows[-1]["block_time"]):
        received = {row["token_id"]: row["to_address"] for row in rows if row["block_time"] <= at}
        expected = {item: address for item, address in received.items() if address != ZERO}
        for item in {*chance.sample(sorted(expected), 25), *(twice & set(expected)), *({str(UINT256)} & set(expected))}:
            (row,) = holders_of_item(store, *token, int(item), from_unix(at)).to_pylist()
            assert (row["address"], row["quantity"]) == (expected[item], "1")


# ---------------------------------------------------------------------- labels and token lists


@pytest.fixture(scope="module")
def collections(shared_data: Path) -> dict[str, LabelFile]:
    return {path.name.split(".")[0]: read_labels(path) for path in sorted((shared_data / "labels").iterdir())}


def _by_address(file: LabelFile) -> dict[str, Label]:
    return {label.address: label for label in file.labels}


def _kinds(label: Label) -> tuple[bool, bool, bool]:
    return label.is_cex, label.is_dex, label.is_contract


def test_all_six_collections_are_recognised(collections: dict[str, LabelFile]) -> None:
    found = {name: (file.source, len(file.labels), file.skipped) for name, file in collections.items()}
    assert found == {
        "bscscan_accounts": ("bscscan", 2_865, 10),
        "edinburgh_ethereum": ("edinburgh", 21_137, 43),
        "eth_labels_accounts": ("eth-labels", 33_738, 12_534),
        "etherscan_accounts": ("etherscan", 20_175, 3_113),
        "graphsense_tags": ("graphsense", 13_810, 1_569),
        "helios_labels": ("hand:helios_labels", 43, 0),
    }


def test_there_is_one_label_for_an_address_and_chain(collections: dict[str, LabelFile]) -> None:
    for file in collections.values():
        counts = Counter((label.address, label.chain, label.source) for label in file.labels)
        assert max(counts.values()) == 1
        assert all(label.address for label in file.labels)


def test_known_addresses_have_the_known_kind(collections: dict[str, LabelFile]) -> None:
    etherscan = _by_address(collections["etherscan_accounts"])
    binance_14 = etherscan["0x28c6c06298d514db089934071355e5743bf21d60"]
    assert (binance_14.name, _kinds(binance_14), binance_14.entity_id) == (
        "Binance 14",
        (True, False, False),
        "binance",
    )
    uniswap_router = _by_address(collections["graphsense_tags"])["0x7a250d5630b4cf539739df2c5dacb4c659f2488d"]
    assert _kinds(uniswap_router) == (False, True, True)
    tether = _by_address(collections["eth_labels_accounts"])["0xdac17f958d2ee523a2206206994597c13d831ec7"]
    assert _kinds(tether) == (False, False, True)
    zero = _by_address(collections["eth_labels_accounts"])[ZERO]
    assert _kinds(zero) == (False, False, True)
    helios = _by_address(collections["helios_labels"])
    assert _kinds(helios["0x2d0cd4e0065fe645c983c00db29a9a3d66eb2073"]) == (False, True, True)
    assert _kinds(helios["0x3b9f91d968a5fb014eff74cdb6e6334ae7dbcc16"]) == (True, False, False)
    assert _kinds(helios["0x5f0cf2d3738e67bba660d354e8483977bc61ba68"]) == (False, False, False)
    assert helios["0x5f0cf2d3738e67bba660d354e8483977bc61ba68"].name == "Helios Team"


def test_guessed_contracts_agree_with_known_contracts(collections: dict[str, LabelFile]) -> None:
    knows = {label.address: label.is_contract for label in collections["edinburgh_ethereum"].labels}
    guessed = [
        label for label in collections["etherscan_accounts"].labels if label.is_contract and label.address in knows
    ]
    wrong = [label for label in guessed if not knows[label.address]]
    assert len(guessed) > 6_000
    assert len(wrong) < 0.005 * len(guessed)


def test_users_and_charities_are_no_contracts(
    collections: dict[str, LabelFile],
) -> None:
    named = [label for label in collections["eth_labels_accounts"].labels if "Endaoment" in (label.name or "")]
    assert len(named) > 3_000
    assert sum(label.is_contract or label.is_cex or label.is_dex for label in named) < 0.005 * len(named)


@pytest.mark.parametrize(
    ("name", "chain", "count"),
    [
        ("bsc.tokenlist.json.gz", "bsc", 2_531),
        ("ethereum.tokenlist.json.gz", "eth", 5_118),
        ("metamask-contract-map.json", "eth", 661),  # one address has two tokens
        ("solana.tokenlist.json.gz", "solana", 13_053),
    ],
)
def test_the_real_token_lists_are_read(shared_data: Path, name: str, chain: str, count: int) -> None:
    tokens = read_tokens(shared_data / "tokens" / name).tokens
    assert Counter(token.chain for token in tokens) == {chain: count}
    assert all(token.name and token.symbol for token in tokens)
