"""Exit codes: each error of a command ends it with the code that ``--help`` and the docs give."""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetKey

from holderlake.assets.holders import HOLDERS
from holderlake.cli.backfill import run_backfill
from holderlake.cli.exit_codes import EXIT_CODES
from holderlake.cli.launch import ingest_day
from holderlake.cli.main import exit_code
from holderlake.core.lake.lake import PartitionUpdate
from holderlake.core.provider.errors import InvalidKey
from holderlake.core.settings import SettingsError
from holderlake.core.workspace import Workspace
from holderlake.errors import RunFailed, SomeFailed
from holderlake.operations.history.instance import dagster_instance
from tests.helpers import commands
from tests.helpers.filling import MakeWorkspace, fill
from tests.helpers.processes import Ended

CHAIN = "eth"
MAY, JUNE = datetime(2026, 5, 1), datetime(2026, 6, 1)


@pytest.fixture(autouse=True)
def home(empty_home: Path, tmp_path: Path) -> Path:
    """A home with an empty history and warehouse, because a command takes a second to create them."""
    return shutil.copytree(empty_home, tmp_path, dirs_exist_ok=True)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SomeFailed("2 of 3 partitions failed"), 3),
        (RunFailed("no connection"), 1),
        (InvalidKey("the key is revoked"), 1),
        (SettingsError("home is a file"), 1),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad byte"), 1),
        (ValueError("--token needs --chain"), 2),
    ],
)
def test_an_error_maps_to_its_exit_code(error: Exception, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.later(integration=2)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["plan", "--from", "tomorrow"], 2),
        (["ingest", "--no-such-option"], 2),
        (["ingest", "--token", "0x6ba6f2207e343923ba692e5cae646fb0f566db8d"], 2),
        (["ingest", "--chain", "eth", "--token", "0x123"], 2),
        (["ingest", "--chain", "eth", "--token", "0x5aaEb6053F3E94C9b9A09f33669435E7Ef1BeAed"], 2),
        (["sql", "SELECT nothing FROM nowhere"], 1),
    ],
)
def test_a_refused_command_exits_with_its_code(arguments: list[str], code: int, tmp_path: Path) -> None:
    ended = holderlake(tmp_path, *arguments)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert "Traceback" not in ended.stderr


def test_help_lists_the_exit_codes(tmp_path: Path) -> None:
    said = " ".join(holderlake(tmp_path, "--help").stdout.split())
    assert all(f"{code} {sentence}" in said for code, sentence in EXIT_CODES.items())


def holderlake(home: Path, *arguments: str) -> Ended:
    """Run the command without the settings of the environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDERLAKE_")}
    return commands.holderlake(*arguments, env=environment | {"HOLDERLAKE_HOME": str(home), "COLUMNS": "200"})


@pytest.mark.integration
def test_a_complete_instant_needs_no_run_of_dagster(tmp_path: Path) -> None:
    arguments = ("ingest", "--chain", "solana", "--at", "2026-05-01", "--json")
    first, second = holderlake(tmp_path, *arguments), holderlake(tmp_path, *arguments)
    assert (second.returncode, second.stdout) == (first.returncode, first.stdout) == (0, first.stdout)
    with dagster_instance(tmp_path / "dagster") as instance:
        assert instance.get_runs_count() == 1
        (file,) = (tmp_path / "lake").glob("maps/**/*.parquet")
        file.write_bytes(b"damaged")
        assert holderlake(tmp_path, *arguments).returncode == 0
        assert file.read_bytes() != b"damaged"
        instance.wipe_assets([AssetKey("maps")])
        assert holderlake(tmp_path, *arguments).returncode == 0
        assert instance.get_runs_count() == 2, "Dagster lacked the partition"


@pytest.mark.long
def test_a_backfill_that_lands_everything_exits_0(make_workspace: MakeWorkspace) -> None:
    workspace = _workspace(make_workspace)
    run_backfill(workspace, [CHAIN], [MAY], (), ["holders"], as_json=False)
    run_backfill(workspace, [CHAIN], [MAY], (), ["holders"], as_json=False)


@pytest.mark.long
def test_a_backfill_with_a_failed_token_exits_3_with_a_count(make_workspace: MakeWorkspace) -> None:
    tokens = make_workspace().settings.watchlist[CHAIN][:1]
    workspace = make_workspace(watchlist={CHAIN: [*tokens, "0x" + "9" * 40]})
    with pytest.raises(SomeFailed, match=r"1 request failed; .*FROM failures.*retry-failures"):
        run_backfill(workspace, [CHAIN], [MAY], (), ["holders"], as_json=False)


@pytest.mark.long
def test_a_backfill_that_lands_nothing_exits_1(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(watchlist={CHAIN: ["0x" + "9" * 40]})
    with pytest.raises(RunFailed, match=r"no rows were committed: 1 time unknown_token") as failed:
        run_backfill(workspace, [CHAIN], [MAY], (), ["holders"], as_json=False)
    assert exit_code(failed.value) == 1


@pytest.mark.integration
def test_a_backfill_that_a_ceiling_stops_exits_3(make_workspace: MakeWorkspace) -> None:
    workspace = _workspace(make_workspace, budget={"per_day": "75"})
    with pytest.raises(
        SomeFailed, match=r"the lake has 1 of 2 partitions\. .* would exceed the ceiling budget\.per_day"
    ):
        run_backfill(workspace, [CHAIN], [MAY, JUNE], (), ["holders"], as_json=False)


@pytest.mark.long
def test_failed_asset_checks_are_printed_with_the_run(
    make_workspace: MakeWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = _workspace(make_workspace)
    fill(workspace, HOLDERS, CHAIN, MAY)
    (manifest,) = workspace.lake.manifests("holders")
    rows = workspace.lake.rows(manifest, "holders").slice(1)  # rank 1 is gone
    options = {
        "provider": manifest.provider,
        "by": "token",
        "requested": manifest.covered,
        "covered": dict.fromkeys(manifest.covered, manifest.written_at),
        "options": manifest.options,
    }
    workspace.lake.write(PartitionUpdate("holders", CHAIN, MAY, {"holders": rows}, **options))
    with dagster_instance(workspace.settings.dagster_home) as instance:
        ingest_day(workspace, instance, CHAIN, [MAY])
    said = " ".join(capsys.readouterr().err.split())
    assert "Check 'rows are sound' of holders failed (error): partitions 1, faults 1, instants 2026-05-01T" in said
    assert "; first:" in said


def _workspace(make_workspace: MakeWorkspace, **settings: Any) -> Workspace:
    tokens = make_workspace().settings.watchlist[CHAIN][:1]
    workspace: Workspace = make_workspace(watchlist={CHAIN: tokens}, **settings)
    return workspace
