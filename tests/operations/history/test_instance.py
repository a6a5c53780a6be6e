"""Dagster's home: the lines of ``dagster.yaml``, and the history that the commands use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from dagster import DagsterInstance

from holderlake.operations.history.instance import dagster_instance, prepare_dagster_home

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def own_dagster_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "")  # undoes what opening a home sets


def test_dagster_frees_runs_that_hang_and_repeats_none(tmp_path: Path) -> None:
    prepare_dagster_home(tmp_path)
    with DagsterInstance.get() as instance:
        monitoring, retries = instance.get_settings("run_monitoring"), instance.run_retries_enabled
    assert monitoring["enabled"]
    assert monitoring["free_slots_after_run_end_seconds"] <= 60
    assert not retries


def test_settings_of_dagster_that_a_user_changed_stay(tmp_path: Path) -> None:
    own = "concurrency:\n  runs:\n    max_concurrent_runs: 5\n"
    (tmp_path / "dagster.yaml").write_text(own)
    prepare_dagster_home(tmp_path)
    assert (tmp_path / "dagster.yaml").read_text() == own


def test_a_storage_that_the_user_chose_is_used(tmp_path: Path) -> None:
    chosen = f"storage:\n  sqlite:\n    base_dir: {tmp_path / 'elsewhere'}\n"
    (tmp_path / "dagster.yaml").write_text(chosen)
    with dagster_instance(tmp_path):
        pass
    assert (tmp_path / "elsewhere").is_dir()
    assert (tmp_path / "dagster.yaml").read_text() == chosen


@pytest.mark.long
def test_definitions_load_without_key_and_store(tmp_path: Path) -> None:
    script = """
import resource, sys
from holderlake.pipelines.definitions import build_defs
build_defs().get_repository_def()
usage = resource.getrusage(resource.RUSAGE_SELF)
assert usage.ru_utime + usage.ru_stime < 5, usage
assert {name for name in sys.modules if name.startswith("holderlake.engine.")} <= {"holderlake.engine.settings"}
"""
    settings = {"HOLDERLAKE_API_KEY_FILE": str(tmp_path / "missing"), "HOLDERLAKE_PROVIDER__URL": "http://127.0.0.1:1"}
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), **settings},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_only_one_module_uses_private_modules_of_dagster() -> None:
    folders = ("holderlake", "assets", "resources", "pipelines")
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if "from dagster._" in path.read_text() or "import dagster._" in path.read_text()
    }
    assert found == {"holderlake/core/dagster/workarounds.py"}


def test_an_existing_dagster_home_is_used_with_its_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "company"
    own.mkdir()
    (own / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    monkeypatch.setenv("DAGSTER_HOME", str(own))
    with dagster_instance(tmp_path / "home" / "dagster") as instance:
        assert Path(instance.root_directory) == own
        instance.add_dynamic_partitions("chain", ["eth"])
    assert (own / "dagster.yaml").read_text() == "telemetry:\n  enabled: false\n"
    assert not (tmp_path / "home").exists()
    with DagsterInstance.get() as instance:
        assert instance.get_dynamic_partitions("chain") == ["eth"]


def test_a_dagster_home_that_a_command_set_does_not_bind_the_next_home(tmp_path: Path) -> None:
    for name in ("first", "second"):
        with dagster_instance(tmp_path / name) as instance:
            assert Path(instance.root_directory) == tmp_path / name
