"""The application of the installed package, and that of a checkout, which declares its own assets and resources."""

from __future__ import annotations

from pathlib import Path

import pytest
from dagster import AssetSpec, Definitions

from holderlake.core.settings import Settings
from holderlake.dagster import definitions
from holderlake.pipelines.definitions import build_defs


def described(defs: Definitions) -> dict[str, object]:
    """Assets, checks, jobs, schedules, sensors and the configuration of resources, as a user sees them."""
    specs: dict[str, AssetSpec] = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    checks = defs.resolve_asset_graph().asset_check_keys
    repository = defs.get_repository_def()
    nodes = [
        (node.op.pool, node.backfill_policy) for node in repository.assets_defs_by_key.values() if node.is_executable
    ]
    return {
        "assets": {name: (spec.description, spec.deps, spec.partitions_def) for name, spec in specs.items()},
        "checks": {(key.asset_key.to_user_string(), key.name) for key in checks},
        "jobs": {job.name for job in repository.get_all_jobs()},
        "instigators": {one.name for one in [*repository.schedule_defs, *repository.sensor_defs]},
        "resources": {name: str(resource) for name, resource in (defs.resources or {}).items()},
        "steps": sorted(map(str, nodes)),
    }


@pytest.mark.parametrize("chains", [{}, {"eth": {"endpoints": ["http://127.0.0.1:1"]}}], ids=["", "with nodes"])
def test_a_checkout_declares_what_the_package_declares_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chains: dict[str, object]
) -> None:
    settings = Settings.model_validate({"home": tmp_path, "sources": {"rpc": chains}})
    monkeypatch.setattr(definitions, "load_settings", lambda: settings)
    monkeypatch.setattr("holderlake.pipelines.definitions.load_settings", lambda: settings)
    assert described(build_defs()) == described(definitions.application())


def test_commands_run_the_definitions_of_the_checkout() -> None:
    assert definitions.definitions_module() == "holderlake.pipelines.definitions"


def test_an_installed_package_runs_its_own_definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions.holderlake, "__file__", str(tmp_path / "site-packages" / "holderlake" / "x.py"))
    assert definitions.definitions_module() == "holderlake.pipelines.definitions"
