"""Two teams with projects and providers of their own in one Dagster instance: the example deploy/tenants."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from dagster import AssetKey, DagsterInstance

from holderlake.core.lake.lake import Lake
from holderlake.core.provider.ledger.ledger import CreditLedger
from holderlake.service.billing.keys import KeyStore
from holderlake.service.run import BackgroundService
from tests.helpers.processes import ROOT

pytestmark = pytest.mark.long

PARTITIONS: Final = {"alpha": "eth|2026-05-01", "beta": "base|2026-05-01"}
POOLS: Final = "concurrency: {pools: {granularity: run, default_limit: 1}}"


@dataclass
class Instance:
    """A copy of the example, whose teams fetch from two services."""

    folder: Path
    environment: dict[str, str]

    def dagster(self, *arguments: str, team: str = ".") -> str:
        """Run Dagster's command in the folder of a team, and return its output."""
        command = [sys.executable, "-m", "dagster", *arguments]
        folder = self.folder / team
        ended = subprocess.run(command, cwd=folder, env=self.environment, check=False, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout + ended.stderr


@pytest.fixture
def instance(tmp_path: Path, sample_service: Any) -> Iterator[Instance]:
    shutil.copytree(ROOT / "deploy" / "tenants", tmp_path, dirs_exist_ok=True)
    (tmp_path / "dagster").mkdir()
    (tmp_path / "dagster" / "dagster.yaml").write_text(POOLS)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDERLAKE_", "DAGSTER_"))}
    own |= {"PYTHONPATH": str(ROOT), "DAGSTER_HOME": str(tmp_path / "dagster"), "DAGSTER_DISABLE_TELEMETRY": "yes"}
    with KeyStore(tmp_path / "keys.sqlite") as keys, BackgroundService(sample_service.store, keys) as second:
        own |= {"ALPHA_PROVIDER": sample_service.base_url, "ALPHA_API_KEY": sample_service.secret}
        own |= {"BETA_PROVIDER": second.base_url, "BETA_API_KEY": keys.create("beta", 10**9, custom_plan=True)}
        yield Instance(tmp_path, own)


def test_two_teams_share_an_instance_and_nothing_else(instance: Instance) -> None:
    assert "All code locations passed" in instance.dagster("definitions", "validate", "-w", "workspace.yaml")
    for team, partition in PARTITIONS.items():
        select = ["--select", "*", "--partition", partition]
        instance.dagster("asset", "materialize", "-m", "definitions", *select, team=team)
    with DagsterInstance.from_config(str(instance.folder / "dagster")) as opened:
        for key, partition in ((["alpha", "holders"], "eth|2026-05-01"), (["beta", "maps"], "base|2026-05-01")):
            assert opened.get_materialized_partitions(AssetKey(key)) == {partition}
    lakes = {team: Lake(instance.folder / team / "data" / "lake") for team in PARTITIONS}
    assert {team: {one.family for one in lake.manifests()} for team, lake in lakes.items()} == {
        "alpha": {"tokens", "holders"},
        "beta": {"tokens", "maps"},
    }
    assert lakes["alpha"].provider != lakes["beta"].provider
    for team in PARTITIONS:
        with CreditLedger(instance.folder / team / "data" / "ledger.sqlite") as ledger:
            assert ledger.totals().spent > 0


def test_assets_of_a_team_have_its_prefix_and_pool() -> None:
    code = """
import definitions
for assets in definitions.defs.assets:
    print(*{key.path[0] for key in assets.keys}, assets.op.pool)
"""
    for team in PARTITIONS:
        ended = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT / "deploy" / "tenants" / team,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            check=True,
            capture_output=True,
            text=True,
        )
        assert ended.stdout.splitlines() == [f"{team} {team}"] * 2 + [f"{team} None"]
