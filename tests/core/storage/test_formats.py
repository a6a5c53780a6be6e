"""Every part of a home has a format, and a part of another format is refused untouched."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from holderlake.core.archive import provenance
from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.contract.times import utc_now
from holderlake.core.lake.lake import Lake, LakeError
from holderlake.core.lake.manifests import FORMAT, DamagedManifest, parsed_manifest
from holderlake.core.provider.ledger.ledger import CreditLedger
from holderlake.core.provider.plan_limits import PlanLimits
from holderlake.core.storage.formats import write_format
from holderlake.core.storage.layout import manifest_path
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.core.warehouse.warehouse import Warehouse, WarehouseError
from holderlake.engine.catalog.catalog import FORMAT as STORE_FORMAT
from holderlake.engine.errors import BadSource
from holderlake.engine.store.store import Store
from holderlake.operations.history.instance import prepare_dagster_home
from tests.helpers.lakes import DAYS, write_holders

LATER = r"has format 99, and this version of Holderlake reads format 1: install the newer version"


def tree(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files below a folder, without locks."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {str(path): path.read_bytes() for path in found}


def test_a_manifest_without_a_format_is_damaged(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    path = next(lake.manifest_paths())
    content = json.loads(path.read_bytes())
    assert content.pop("format") == FORMAT
    path.write_text(json.dumps(content))
    with pytest.raises(DamagedManifest, match="missing required field `format`"):
        parsed_manifest(path.read_bytes(), path)


def test_a_part_of_an_earlier_format_names_the_command_that_upgrades_it(tmp_path: Path) -> None:
    write_format(tmp_path, 0)
    with pytest.raises(DatabaseError, match=r"has format 0, .* reads format 1: run 'holderlake home upgrade'$"):
        AnswerArchive(tmp_path).get("0" * 64)


def test_a_partition_of_a_later_format_is_neither_read_nor_written(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    path = next(lake.manifest_paths())
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"format": 99, "covered": {"other": "shape"}}))
    before = tree(tmp_path)
    for use in (
        lambda: list(lake.manifests()),
        lambda: write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": 2}}),
        lambda: Warehouse(tmp_path / "warehouse.duckdb").load(lake),
    ):
        with pytest.raises(LakeError, match=LATER):
            use()
    assert tree(tmp_path) == before


@pytest.mark.long
def test_a_column_of_a_later_version_is_not_removed_by_a_write(
    tmp_path: Path, new_column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, warehouse = Lake(tmp_path / "lake"), Warehouse(tmp_path / "warehouse.duckdb")
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    warehouse.load(lake)
    monkeypatch.undo()  # from here on, the older version
    before = tree(tmp_path)
    with pytest.raises(LakeError, match=f"has the column '{new_column}', which this version does not know"):
        write_holders(lake, "eth", DAYS[0], {"0xb": {"0x1": 2}})
    with pytest.raises(WarehouseError, match=rf"has the column holders\.{new_column}, which this version"):
        warehouse.load(lake)
    assert tree(tmp_path) == before
    assert lake.read("holders").num_rows == 1
    assert Warehouse(tmp_path / "other.duckdb").load(lake).rows == {"holders": 1}


@pytest.mark.long
def test_a_warehouse_of_a_later_format_is_neither_read_nor_loaded(tmp_path: Path) -> None:
    lake, warehouse = Lake(tmp_path / "lake"), Warehouse(tmp_path / "warehouse.duckdb")
    warehouse.load(lake)
    assert warehouse.query("SELECT sha FROM _internal.installed WHERE part = 'format'")["sha"].to_pylist() == ["1"]
    with duckdb.connect(str(warehouse.path)) as connection:
        connection.execute("UPDATE _internal.installed SET sha = '99' WHERE part = 'format'")
    before = tree(tmp_path)
    with pytest.raises(WarehouseError, match=LATER):
        warehouse.query("FROM holders")
    with pytest.raises(WarehouseError, match=LATER):
        warehouse.load(lake)
    assert tree(tmp_path) == before


def test_a_ledger_of_a_later_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    CreditLedger(path).close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        db.execute("PRAGMA user_version = 99")
    before = tree(tmp_path)
    with pytest.raises(DatabaseError, match=LATER):
        CreditLedger(path)
    with pytest.raises(DatabaseError, match=LATER):
        PlanLimits(path, "tests", None)
    assert tree(tmp_path) == before


def test_an_archive_of_a_later_format_is_refused(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    assert archive.get("0" * 64) is None
    assert json.loads((tmp_path / "format.json").read_bytes()) == {"format": 1}
    write_format(tmp_path, 99)
    before = tree(tmp_path)
    commit = provenance.Commit("holders", "eth", "20260501T000000Z", "tests", False, utc_now(), ())
    for use in (
        lambda: AnswerArchive(tmp_path).get("0" * 64),
        lambda: provenance.records(archive),
        lambda: provenance.note(archive, commit),
    ):
        with pytest.raises(DatabaseError, match=LATER):
            use()
    assert tree(tmp_path) == before


def test_a_store_of_a_later_format_is_refused(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as db, db:
        db.execute("PRAGMA user_version = 99")
    (tmp_path / "catalog-copy.sqlite").unlink()  # else the catalogue differs from it
    with pytest.raises(BadSource, match=LATER.replace("format 1", f"format {STORE_FORMAT}")):
        Store(tmp_path)


def test_a_dagster_history_of_a_later_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "")  # as if unset; put back afterwards
    new, other = tmp_path / "new", tmp_path / "other"
    prepare_dagster_home(new)
    assert json.loads((new / "format.json").read_bytes())["format"] == 1
    write_format(new, 99)
    write_format(other, 1, dagster="99.1")
    before = tree(tmp_path)
    with pytest.raises(DatabaseError, match=LATER):
        prepare_dagster_home(new)
    with pytest.raises(DatabaseError, match=r"was written by Dagster 99\.1, and this is Dagster"):
        prepare_dagster_home(other)
    assert tree(tmp_path) == before


def test_a_damaged_manifest_without_a_format_is_still_damage(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    manifest_path(tmp_path, "holders", "eth", "20261101T000000Z").write_text('{"format": 1')
    assert list(lake.manifests()) == []
