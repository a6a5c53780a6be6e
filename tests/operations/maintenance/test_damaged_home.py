"""Random damage to every kind of file of a home: no traceback, no silent wrong figure, no lost unlisted file.

``HOLDERLAKE_DAMAGES`` is the number of damages of the long test (1,000 with ``HOLDERLAKE_ALL_EXAMPLES=1``), counted
from ``HOLDERLAKE_DAMAGES_FROM``. ``HOLDERLAKE_DAMAGES_CLI`` (50) is the number of those that run commands in separate
processes; ``HOLDERLAKE_DAMAGE_KINDS`` chooses the kinds.
With ``-s`` each damage is a line: its number, the damaged file, the kind and the outcome.
"""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import subprocess
import sys
import traceback
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.assets.tokens import TOKENS
from holderlake.cli.main import _expected_errors
from holderlake.core.provider.ledger.entries import ReportRow
from holderlake.core.settings import Settings
from holderlake.core.workspace import OwnStore, Workspace
from holderlake.engine.settings import store_folder
from holderlake.engine.store.store import Store
from holderlake.engine.store.verify import verify
from holderlake.operations.alerts.outbox import Outbox
from holderlake.operations.alerts.settings import AlertRule, alerts_database
from holderlake.operations.doctor.file_checks import Finding, check_files, set_databases_aside
from holderlake.operations.history.instance import dagster_instance
from holderlake.operations.maintenance.repair_partitions import repair_before_run, repair_home
from holderlake.sources.store import stored_transfers
from tests.engine import damaged as stores
from tests.helpers.damage import KINDS, damage
from tests.helpers.examples import MANY, some
from tests.helpers.filling import MakeWorkspace, fill

pytestmark = pytest.mark.long

MAY, JUNE = datetime(2026, 5, 1), datetime(2026, 6, 1)
DAMAGES = int(os.environ.get("HOLDERLAKE_DAMAGES", "1000" if some(MANY) == MANY else "12"))
FIRST = int(os.environ.get("HOLDERLAKE_DAMAGES_FROM", "0"))
CHOSEN_KINDS = os.environ.get("HOLDERLAKE_DAMAGE_KINDS", ",".join(KINDS)).split(",")
COMMAND_DAMAGES = int(os.environ.get("HOLDERLAKE_DAMAGES_CLI", "50" if some(MANY) == MANY else "2"))
ROOT = Path(__file__).parents[3]
INGEST = ("ingest", "--chain", "eth", "--at", "2026-06-01")
OF_WAREHOUSE = (
    "sql", "--json", "SELECT * EXCLUDE fetched_at FROM holders WHERE timestamp < '2026-05-02' ORDER BY ALL",
)  # fmt: skip
OF_STORE = ("store", "negative-balances", "--json", "--at", "2026-06-01")
TABLES = ("tokens", "holders", "maps", "map_nodes", "clusters", "cluster_members", "grouped_transfers")
OWN_TABLES = ("transfers", "_internal.stored_tokens", "_internal.labels")
"""Views over the transfers of the user's own store, and what it knows of tokens and addresses."""
LOST = re.compile("^lost answer |ingest fetches them again")
"""What no command brings back for nothing: answers that were paid and are gone."""
MOVED = "was moved or copied"
"""Doctor reports this about the warehouse of every copied home."""


@pytest.fixture
def template(make_workspace: MakeWorkspace, empty_history: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A home with two chains, one instant each, loaded; with a store, alerts and a history of Dagster."""
    watched = make_workspace().settings.watchlist
    made = make_workspace(watchlist={chain: watched[chain][:1] for chain in ("solana", "eth")})
    endpoint = made._endpoint()
    made._endpoint = lambda: replace(endpoint, provider_id=endpoint.base_url)  # as commands name this provider
    for chain in ("solana", "eth"):
        for stream in (TOKENS, HOLDERS, MAPS):
            fill(made, stream, chain, MAY)
    made.warehouse.load(made.lake)
    made.close()
    stores.fill(store_folder(made.settings))
    del made.warehouse  # the next one reads the store
    made._transfers = lambda: stored_transfers(store_folder(made.settings))
    made.warehouse.load(made.lake)
    made.close()
    monkeypatch.setenv("DAGSTER_HOME", "")  # which opening a history sets
    shutil.copytree(empty_history, made.settings.dagster_home)
    use_state(made.settings)
    return made


def files_of(home: Path) -> list[Path]:
    """Return the files with content: no locks, and no auxiliary files of SQLite."""
    found = (path for path in home.rglob("*") if path.is_file() and path.stat().st_size)
    return sorted(path for path in found if path.suffix not in (".lock",) and not path.name.endswith(("-wal", "-shm")))


def problems(workspace: Workspace) -> list[Finding]:
    """What doctor finds about the files of a home, and its store byte by byte."""
    damaged = verify(store_folder(workspace.settings)).damaged
    store = [Finding("store", False, f"{one.path}: {one.problem}", one.remedy) for one in damaged]
    return [*(one for one in check_files(workspace) if not one.fine), *store]


def repair(workspace: Workspace) -> None:
    """Run ``holderlake home rebuild --damaged``."""
    set_databases_aside(workspace)
    repair_home(workspace, ())


def use(workspace: Workspace) -> None:
    """Run an ingest of another instant and a load, as a user does."""
    repair_before_run(workspace, ["solana", "eth"], {"20260501T000000Z"}, every_byte=True)
    for stream in (TOKENS, HOLDERS, MAPS):
        fill(workspace, stream, "eth", MAY, JUNE)
    workspace.warehouse.load(workspace.lake)


def use_state(settings: Settings) -> None:
    """Read and write Dagster's history and the alerts, as a run does."""
    with dagster_instance(settings.dagster_home) as history:
        history.add_dynamic_partitions("chain", ["eth"])
        assert not history.get_runs_count()
    Outbox(alerts_database(settings)).began("rule", AlertRule(rule="new_top_holder"), JUNE)


def after(
    workspace: Workspace, chosen: Path, expected: set[str], charges: list[ReportRow], answers: dict[str, Any]
) -> str:
    """Use a home of which a file is damaged. Returns the outcome; a wrong figure or a silent loss fails.

    Doctor must name the file and a command, and that command must leave nothing that doctor names.
    """
    settings = workspace.settings
    in_store = chosen.is_relative_to(store_folder(settings))
    found = [one for one in problems(workspace) if MOVED not in one.found]
    for one in found:
        assert "holderlake " in one.advice or LOST.search(one.found + one.advice), f"no command: {one}"
    if found and not in_store:
        assert any(chosen.name in one.found or chosen.parent.name in one.found for one in found), f"not named: {found}"
    if in_store:
        shown = stores.outcome(store_folder(settings), answers)
        return f"{'found by doctor' if found else 'not found'}, {shown}"
    spent = workspace.ledger.report("endpoint") if not found else charges
    assert spent == charges, f"other costs: {spent}"
    repair(workspace)
    left = [one for one in problems(workspace) if not LOST.search(one.found)]
    assert not left, f"not repaired: {left}"
    use(workspace)
    rows = figures(workspace)
    assert rows <= expected, f"a wrong figure: {sorted(rows - expected)[:2]}"
    assert found or rows == expected, "rows are missing, and doctor found nothing"
    use_state(settings)
    return f"{'found by doctor' if found else 'not found'}, {'all' if rows == expected else 'some'} figures"


def figures(workspace: Workspace) -> set[str]:
    """All rows of the first instant, without the time at which they were fetched."""
    own = {f"{name}: {row}" for name in OWN_TABLES for row in workspace.warehouse.query(f"FROM {name}").to_pylist()}
    rows = {table: workspace.warehouse.query(f"SELECT * EXCLUDE fetched_at FROM {table}") for table in TABLES}
    return own | {f"{table}: {row}" for table in TABLES for row in rows[table].to_pylist() if row["timestamp"] == MAY}


def copy_of(template: Workspace, home: Path) -> Path:
    """A copy of the home, with a file in its lake that is not ours; returns that file."""
    shutil.copytree(template.settings.home, home, ignore=shutil.ignore_patterns("home-*", "sample-world"))
    stray = home / "lake" / "holders" / "mine.txt"
    stray.write_text("mine")
    return stray


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("first", "damages"), [(FIRST, 1), *((FIRST + DAMAGES * part // 4, DAMAGES // 4) for part in range(4))]
)
def test_damage_is_found_or_harmless(template: Workspace, tmp_path: Path, first: int, damages: int) -> None:
    expected, charges = figures(template), template.ledger.report("endpoint")
    template.close()
    assert {row.partition(":")[0] for row in expected} == {*TABLES, *OWN_TABLES}
    with Store(store_folder(template.settings)) as store:
        answers = stores.answers(store)
    paths = [path.relative_to(template.settings.home) for path in files_of(template.settings.home)]
    failures = []
    for number in range(first, first + damages):
        home = tmp_path / f"home-{number}"
        stray = copy_of(template, home)
        rng = Random(number)
        chosen, kind = home / rng.choice(paths), rng.choice(CHOSEN_KINDS)
        what = f"damage {number}: {chosen.relative_to(home)}, {damage(chosen, rng, kind)}"
        settings = template.settings.model_copy(update={"home": home})
        store = OwnStore(transfers=partial(stored_transfers, store_folder(settings)))
        workspace = Workspace(settings, template._endpoint, store=store)
        try:
            outcome = after(workspace, chosen, expected, charges, answers)
        except _expected_errors() as error:
            outcome = "refused in a sentence" if len(str(error).splitlines()) <= 2 else "too long an error"
        except Exception:
            outcome = traceback.format_exc()
        if "\n" in outcome or outcome == "too long an error" or stray.read_text() != "mine":
            failures.append(f"{what}: {outcome}")
        sys.stdout.write("\t".join(("damage", str(number), str(chosen.relative_to(home)), kind, repr(outcome))) + "\n")
        workspace.close()
        del workspace
        gc.collect()
        shutil.rmtree(home)
    assert not failures, "\n".join(failures)


@pytest.mark.timeout(1200)
def test_a_query_after_a_flip_gives_right_rows_or_an_error(template: Workspace) -> None:
    expected, paths = figures(template), files_of(template.settings.home)
    template.close()
    for number in range(FIRST, FIRST + DAMAGES):
        rng = Random(f"flip {number}")
        chosen = rng.choice(paths)
        intact, what = chosen.read_bytes(), damage(chosen, rng, "flip")
        with suppress(*_expected_errors()):
            assert figures(template) == expected, f"flip {number}: {what}"
        chosen.write_bytes(intact)


def run(environment: dict[str, str], home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command on a home in a separate process."""
    return subprocess.run(
        [sys.executable, "-m", "holderlake.cli.main", *words],
        cwd=ROOT,
        env={**os.environ, **environment, "HOLDERLAKE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(1200)
def test_commands_on_a_damaged_home_print_no_wrong_figure(template: Workspace, tmp_path: Path) -> None:
    paths = [path.relative_to(template.settings.home) for path in files_of(template.settings.home)]
    endpoint = template._endpoint()
    assert endpoint.api_key is not None
    environment = {
        "HOLDERLAKE_PROVIDER__URL": endpoint.base_url,
        "HOLDERLAKE_API_KEY": endpoint.api_key.get_secret_value(),
        "HOLDERLAKE_WATCHLIST": json.dumps(template.settings.watchlist),
    }
    copy_of(template, tmp_path / "home-whole")
    expected = {query: run(environment, tmp_path / "home-whole", *query) for query in (OF_WAREHOUSE, OF_STORE)}
    assert all(json.loads(done.stdout) for done in expected.values())
    failures = []
    for number in range(FIRST, FIRST + COMMAND_DAMAGES):
        home = tmp_path / f"home-{number}"
        stray = copy_of(template, home)
        rng = Random(f"command {number}")
        chosen, kind = home / rng.choice(paths), rng.choice(CHOSEN_KINDS)
        what = f"damage {number}: {chosen.relative_to(home)}, {damage(chosen, rng, kind)}"
        query = OF_STORE if chosen.is_relative_to(home / "engine") else OF_WAREHOUSE
        commands = {"doctor": ("doctor",), "repair": ("home", "rebuild", "--damaged"), "ingest": INGEST, "query": query}
        done = {name: run(environment, home, *words) for name, words in commands.items()}
        for name, one in done.items():
            if "Traceback" in one.stderr or one.returncode not in {0, 1, 3}:
                failures.append(f"{what}: {name}: {one.stderr}")
        if not done["query"].returncode and done["query"].stdout != expected[query].stdout:
            failures.append(f"{what}: other figures: {done['query'].stdout}")
        if stray.read_text() != "mine":
            failures.append(f"{what}: an unlisted file is gone")
        codes = " ".join(f"{name} {one.returncode}" for name, one in done.items())
        sys.stdout.write("\t".join(("command", str(number), str(chosen.relative_to(home)), kind, codes)) + "\n")
        shutil.rmtree(home)
    assert not failures, "\n".join(failures)
