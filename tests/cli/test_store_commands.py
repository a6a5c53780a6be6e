"""``holderlake store``: a damaged store is refused, verified and rebuilt from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from holderlake.cli.main import app, exit_code
from holderlake.engine.store.store import Store
from tests.engine.damaged import fill
from tests.helpers.damage import damage

pytestmark = pytest.mark.integration

Run = Callable[..., Result]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store of a home, with transfers, labels and opening balances."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path / "home"))
    root = tmp_path / "home" / "engine"
    root.mkdir(parents=True)
    fill(root)
    return root


def run(*arguments: str) -> Result:
    """Run a command."""
    return CliRunner().invoke(app, list(arguments))


def test_verify_lists_damaged_files_with_the_remedy(root: Path) -> None:
    fine = run("store", "verify", "--json")
    assert fine.exit_code == 0
    part = next((root / "arrays").glob("*.run"))
    damage(part, Random(1), "flip")
    found = run("store", "verify", "--json")
    assert exit_code(found.exception) == 3
    (one,) = json.loads(found.stdout)["damaged"]
    assert one["path"] == f"arrays/{part.name}"
    assert one["problem"].startswith("changed since it was written: its checksum is ")
    assert "run 'holderlake store rebuild' to make it again" in one["remedy"]


def test_a_damaged_file_of_transfers_names_what_to_import_again(root: Path) -> None:
    with Store(root) as store:
        history = next(part for parts in store.view().listing.parts.values() for part in parts if part.kind == "base")
        chain, address = store.view().listing.keys[history.token]
    (root / history.paths[0]).write_bytes(b"")
    rebuilt = run("store", "rebuild")
    assert exit_code(rebuilt.exception) == 3
    assert f"import these tokens again: {address} on {chain}" in str(rebuilt.exception)
    assert run("store", "verify").exit_code == 0


def test_clean_deletes_quarantined_files_only_with_yes(root: Path) -> None:
    quarantined = root / "quarantine" / "transfers" / "old.parquet"
    quarantined.parent.mkdir(parents=True)
    quarantined.write_bytes(b"rows")
    assert json.loads(run("delete", "quarantine", "--json").stdout) == {"files": 1, "bytes": 4, "deleted": False}
    assert quarantined.exists()
    assert json.loads(run("delete", "quarantine", "--yes", "--json").stdout)["deleted"]
    assert not quarantined.exists()


@pytest.mark.long
def test_the_doctor_finds_a_lost_file_of_the_store(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def line() -> dict[str, Any]:
        return next(one for one in json.loads(run("doctor", "--json").stdout) if one["what"] == "store")

    assert line()["fine"] and "holderlake store verify" in line()["advice"]
    lost = next((root / "arrays").glob("*.run"))
    lost.unlink()
    assert not line()["fine"]
    assert f"arrays/{lost.name} is missing" in line()["found"]
    assert "holderlake store rebuild" in line()["advice"]


def test_the_embedded_engine_refuses_a_lost_catalogue(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "catalog.sqlite").write_bytes(b"")
    monkeypatch.setenv("HOLDERLAKE_PROVIDER__LOCAL", "store")
    refused = run("ingest", "--chain", "eth", "--token", "0x" + "1" * 40)
    assert refused.exit_code != 0
    assert "run 'holderlake store rebuild'" in str(refused.exception)
