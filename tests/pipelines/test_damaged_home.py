"""Random damage to every kind of file of a home: no traceback, no wrong figure in silence, nothing unlisted deleted.

``HOLDERLAKE_DAMAGES`` names how many damages are tried (1,000 for the full run), ``HOLDERLAKE_DAMAGES_CLI`` how many of
them through commands in processes of their own.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from assets.holders import HOLDERS
from assets.maps import MAPS
from assets.tokens import TOKENS
from pipelines.cli import _expected_errors
from pipelines.file_checks import check_files
from pipelines.repair import repair_before_run
from resources.workspace import Workspace
from tests.damage import damage
from tests.filling import MakeWorkspace, fill

MAY, JUNE = datetime(2026, 5, 1), datetime(2026, 6, 1)
DAMAGES = int(os.environ.get("HOLDERLAKE_DAMAGES", "24"))
COMMAND_DAMAGES = int(os.environ.get("HOLDERLAKE_DAMAGES_CLI", "1"))
ROOT = Path(__file__).parents[2]
FIGURES = "SELECT chain, timestamp, token_address, rank, address, amount FROM holders ORDER BY ALL"


@pytest.fixture
def template(make_workspace: MakeWorkspace) -> Workspace:
    """A home with two chains, one instant each, loaded."""
    watched = make_workspace().settings.watchlist
    made = make_workspace(watchlist={chain: watched[chain][:1] for chain in ("solana", "eth")})
    endpoint = made._endpoint()
    made._endpoint = lambda: replace(endpoint, provider_id=endpoint.base_url)  # as commands name this provider
    for chain in ("solana", "eth"):
        for family in (TOKENS, HOLDERS, MAPS):
            fill(made, family, chain, MAY)
    made.warehouse.load(made.lake)
    made.close()
    return made


def files_of(home: Path) -> list[Path]:
    """The files that hold something: locks are empty, and what SQLite makes beside a file goes with it."""
    found = (path for path in home.rglob("*") if path.is_file() and path.stat().st_size)
    return sorted(path for path in found if path.suffix not in (".lock",) and not path.name.endswith(("-wal", "-shm")))


def use(workspace: Workspace) -> bool:
    """Do what a user does next: doctor, an ingest of another instant, a load. Returns whether doctor found a fault."""
    found = any(not one.fine for one in check_files(workspace))
    repair_before_run(workspace, ["solana", "eth"], {"20260501T000000Z"}, every_byte=True)
    for family in (HOLDERS, MAPS):
        fill(workspace, family, "eth", MAY, JUNE)
    workspace.warehouse.load(workspace.lake)
    return found


def figures(workspace: Workspace) -> list[dict[str, Any]]:
    return [row for row in workspace.warehouse.query(FIGURES).to_pylist() if row["timestamp"] == MAY]


def copy_of(template: Workspace, home: Path) -> Path:
    """A copy of the home, with a file in its lake that is not ours; returns that file."""
    shutil.copytree(template.settings.home, home, ignore=shutil.ignore_patterns("home-*", "sample-world"))
    stray = home / "lake" / "holders" / "mine.txt"
    stray.write_text("mine")
    return stray


def test_damage_is_found_or_harmless_and_never_changes_a_figure(template: Workspace, tmp_path: Path) -> None:
    expected = figures(template)
    paths = [path.relative_to(template.settings.home) for path in files_of(template.settings.home)]
    outcomes: Counter[str] = Counter()
    for number in range(DAMAGES):
        home = tmp_path / f"home-{number}"
        stray = copy_of(template, home)
        chosen = home / paths[number % len(paths)]
        what = f"damage {number}: {chosen.relative_to(home)}, {damage(chosen, Random(number))}"
        workspace = Workspace(template.settings.model_copy(update={"home": home}), template._endpoint)
        try:
            found = use(workspace)
            rows = figures(workspace)
            assert all(row in expected for row in rows), f"{what}: a wrong figure"
            assert found or rows == expected, f"{what}: rows are missing, and doctor found nothing"
            kept = "all figures" if rows == expected else "some figures missing"
            outcomes[f"{'found by doctor' if found else 'not found, harmless'}, {kept}"] += 1
        except _expected_errors() as error:
            assert len(str(error).splitlines()) <= 2, f"{what}: {error}"
            outcomes["refused in a sentence"] += 1
        assert stray.read_text() == "mine", what
        workspace.close()
        del workspace
        gc.collect()
        shutil.rmtree(home)
    sys.stdout.write(f"{dict(outcomes)}\n")
    assert sum(outcomes.values()) == DAMAGES


def test_commands_on_a_damaged_home_print_no_traceback(template: Workspace, tmp_path: Path) -> None:
    paths = [path.relative_to(template.settings.home) for path in files_of(template.settings.home)]
    endpoint = template._endpoint()
    assert endpoint.api_key is not None
    settings = {
        "HOLDERLAKE_PROVIDER__URL": endpoint.base_url,
        "HOLDERLAKE_API_KEY": endpoint.api_key.get_secret_value(),
        "HOLDERLAKE_WATCHLIST": json.dumps(template.settings.watchlist),
    }
    codes: Counter[str] = Counter()
    for number in range(COMMAND_DAMAGES):
        home = tmp_path / f"home-{number}"
        stray = copy_of(template, home)
        rng = Random(f"command {number}")
        chosen = home / rng.choice(paths)
        what = f"{chosen.relative_to(home)}, {damage(chosen, rng)}"
        for words in (["doctor"], ["ingest", "--chain", "eth", "--at", "2026-06-01"], ["sql", "SELECT 1"]):
            done = subprocess.run(
                [sys.executable, "-m", "pipelines.cli", *words],
                cwd=ROOT,
                env={**os.environ, **settings, "HOLDERLAKE_HOME": str(home)},
                capture_output=True,
                text=True,
                check=False,
            )
            assert "Traceback" not in done.stderr, f"{what}: {words[0]}: {done.stderr}"
            assert done.returncode in (0, 1, 3), f"{what}: {words[0]}: {done.stderr}"
            codes[f"{words[0]} {done.returncode}"] += 1
        assert stray.read_text() == "mine", what
        shutil.rmtree(home)
    sys.stdout.write(f"{dict(codes)}\n")
