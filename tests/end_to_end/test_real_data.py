"""Real histories from file to warehouse: import, serve in one process, ingest over HTTP in another, count by hand."""

from __future__ import annotations

import json
import os
import socket
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow.parquet as pq
import pytest

from holderlake.contract.tables import exact_amount
from holderlake.contract.times import from_unix, to_unix
from tests.commands import holderlake
from tests.processes import PATIENCE, start_holderlake, wait_until

ZERO = "0x" + "0" * 40
DECIMALS = {"erc20": 18, "erc721": 0}
STEPS = 10


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
def server(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A served store of everything in the real data: base address and a key."""
    home = Home(tmp_path_factory.mktemp("server"))
    imported = home.run("import", *map(str, sorted((shared_data / "transfers").glob("*.parquet"))))
    assert sum(line["added"] for line in imported) == 60_726
    again = home.run("import", *map(str, sorted((shared_data / "transfers").glob("*.parquet"))))
    assert sum(line["added"] for line in again) == 0
    home.run("labels", *map(str, sorted((shared_data / "labels").iterdir())))
    key = home.run("keys", "create", "ingest", "--credits", "1000000")["key"]
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    log = (home.folder / "serve.log").open("w")
    process = start_holderlake("serve", "--port", str(port), env=home.environment, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: httpx.get(f"{url}/v0/chains", verify=False), process)
        yield url, key
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
    server: tuple[str, str],
    histories: dict[tuple[str, str], list[dict[str, Any]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A home into which clients brought every token at ten instants: one a day at a time, the others all at once."""
    url, key = server
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
    server: tuple[str, str], histories: dict[tuple[str, str], list[dict[str, Any]]]
) -> None:
    url, key = server
    (punks,) = (key for key, rows in histories.items() if "Punks" in rows[0]["source"])
    (quidd,) = (key for key, _ in histories.items() if key[0] == "bsc")
    with httpx.Client(base_url=url, headers={"X-ApiKey": key}, timeout=None) as client:
        holders = client.get(f"/v0/tokens/holders/eth/{punks[1]}", params={"limit": 250}).json()
        assert len(holders) == 220
        top = client.get(f"/v0/tokens/holders/bsc/{quidd[1]}").json()[0]["holder_data"]
        assert top["amount"] / top["share"] == pytest.approx(6_000_000, rel=1e-12)
    supply = -_balances(histories[quidd], datetime(2026, 1, 1))[ZERO]
    assert supply == 6_000_000 * 10**18


def test_the_ledger_equals_what_the_service_billed(server: tuple[str, str], lake: Path) -> None:
    url, key = server
    home = Home(lake, HOLDERLAKE_PROVIDER__URL=url, HOLDERLAKE_API_KEY=key)
    spent = home.run("credits")["totals"]["spent"]
    chains = httpx.get(f"{url}/v0/chains", headers={"X-ApiKey": key}, timeout=None)
    remaining = Decimal(chains.headers["X-Credits-Remaining"])
    others = Decimal("11.00") + Decimal("1.00") + Decimal("0.01")  # what these tests asked for themselves
    assert Decimal(1_000_000) - remaining - others == Decimal(spent) / 100


def test_a_second_ingest_of_the_same_instants_costs_nothing(
    server: tuple[str, str], lake: Path, histories: dict[tuple[str, str], list[dict[str, Any]]]
) -> None:
    url, key = server
    home = Home(lake, HOLDERLAKE_PROVIDER__URL=url, HOLDERLAKE_API_KEY=key)
    before = home.run("credits")["totals"]["spent"]
    (chain, token), rows = next(iter(histories.items()))
    home.run("ingest", "--chain", chain, "--token", token, "--at", _instants(rows)[3].isoformat())
    assert home.run("credits")["totals"]["spent"] == before
