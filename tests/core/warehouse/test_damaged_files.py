"""Damage beside the warehouse and in the lake: the file is named and moved away, and the rest is loaded and served."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holderlake.analysis.comparison import tables as comparisons
from holderlake.analysis.comparison.compare import COMPARISONS
from holderlake.core.lake.lake import Lake
from holderlake.core.lake.manifests import read_manifest, sealed
from holderlake.core.warehouse import derived
from holderlake.core.warehouse.connections import attach
from holderlake.core.warehouse.warehouse import Warehouse, WarehouseError
from holderlake.operations.doctor.file_checks import _warehouse
from holderlake.scale.bucket.home import open_bucket
from holderlake.scale.bucket.sync import pull, push
from tests.core.warehouse.test_transfers import BEGIN, OTHER, TOKEN, Home
from tests.engine.world import transfer
from tests.helpers.damage import damage
from tests.helpers.lakes import DAYS, write_holders

pytestmark = pytest.mark.integration

FILES = ("tokens.parquet", "labels.parquet", "comparisons", "transfers")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    with made.store:
        for token in (TOKEN, OTHER):
            made.add(transfer("mint -> a", 5, BEGIN, token=token))
    write_holders(made.lake, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    difference = ("eth", DAYS[0], "0xa", "equal", "", None, None, "none")
    rows = pa.Table.from_pylist([dict(zip(COMPARISONS.names, difference, strict=True))], COMPARISONS)
    comparisons.keep(tmp_path / "comparisons", (tmp_path / "one", tmp_path / "other"), rows, DAYS[0])
    made.warehouse.load(made.lake)
    return made


def file_of(home: Home, name: str) -> Path:
    root = home.warehouse.path.parent
    pattern = {
        "comparisons": "comparisons/*.parquet",
        "transfers": "warehouse.duckdb.transfers/*/transfers/*/*/*.parquet",
    }
    return sorted(root.glob(pattern.get(name, f"warehouse.duckdb.transfers/*/{name}")))[0]


@pytest.mark.later(long=1)
@pytest.mark.parametrize("kind", ["zero", "truncate", "empty"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_derived_file_is_named_and_the_rest_is_served(home: Home, name: str, kind: str) -> None:
    path = file_of(home, name)
    damage(path, Random(3), kind)
    (found,) = (one for one in _warehouse(home.warehouse) if not one.fine)
    assert str(path) in found.found
    assert "holderlake" in found.advice
    write_holders(home.lake, "eth", DAYS[1], {"0xa": {"0x1": 1}})
    assert home.warehouse.load(home.lake).rows == {"holders": 1}
    assert home.warehouse.query("FROM holders").num_rows == 2
    assert not list(home.warehouse.path.parent.glob("warehouse.duckdb.damaged-*")), "the good file stays"


@pytest.mark.later(long=1)
@pytest.mark.parametrize("name", FILES[:3])
def test_a_damaged_derived_file_is_made_again(home: Home, name: str) -> None:
    damage(file_of(home, name), Random(3), "truncate")
    (message,) = home.warehouse.set_damaged_aside().values()
    assert "is damaged" in message
    home.warehouse.load(home.lake)
    assert not derived.damaged(home.warehouse.path)
    assert home.warehouse.query("FROM transfers").num_rows == 2
    assert home.warehouse.query("FROM comparisons").num_rows == (0 if name == "comparisons" else 1)


@pytest.mark.long
def test_transfers_are_refused_while_the_stores_own_file_is_damaged(home: Home) -> None:
    path = file_of(home, "transfers")
    damage(path, Random(3), "empty")
    assert [text.partition("; ")[2] for text in home.warehouse.set_damaged_aside().values()] == [derived.OF_STORE]
    home.warehouse.load(home.lake)
    with pytest.raises(WarehouseError, match="'holderlake store rebuild' repairs it"):
        home.warehouse.query("FROM transfers")
    assert home.warehouse.query("FROM holders").num_rows == 1
    assert (home.store.root / "transfers" / path.name).exists(), "the original is not ours to move"


QUERIES = (
    "FROM transfers ORDER BY ALL",
    "FROM _internal.balance_files ORDER BY ALL",
    "FROM stored_tokens",
    "FROM holders",
)


def rows_or_error(warehouse: Warehouse, query: str) -> Any:
    try:
        return warehouse.query(query).to_pylist()
    except WarehouseError as error:
        return str(error)


@pytest.mark.parametrize("flips", [20, pytest.param(300, marks=pytest.mark.long)])
def test_a_flipped_bit_gives_right_rows_or_an_error(home: Home, flips: int) -> None:
    right, rng = {query: rows_or_error(home.warehouse, query) for query in QUERIES}, Random(flips)
    folder = home.warehouse.path.with_name("warehouse.duckdb.transfers")
    paths = sorted([home.warehouse.path, *(path for path in folder.rglob("*") if path.is_file())])
    refused = 0
    for _ in range(flips):
        path = rng.choice(paths)
        intact, what = path.read_bytes(), damage(path, rng, "flip")
        for query in QUERIES:
            found = rows_or_error(home.warehouse, query)
            assert found == right[query] or (isinstance(found, str) and "holderlake " in found), f"{what}: {found}"
            refused += isinstance(found, str)
        path.write_bytes(intact)
    assert refused > flips // 2


def test_a_load_mends_a_flipped_file_of_its_own(home: Home) -> None:
    path = file_of(home, "tokens.parquet")
    right = rows_or_error(home.warehouse, "FROM stored_tokens")
    damage(path, Random(3), "flip")
    assert "'holderlake home rebuild --damaged'" in rows_or_error(home.warehouse, "FROM stored_tokens")
    home.warehouse.load(home.lake)
    assert rows_or_error(home.warehouse, "FROM stored_tokens") == right


def test_a_copied_home_never_reads_the_first_ones_transfers(home: Home, tmp_path: Path) -> None:
    right = home.warehouse.query("FROM transfers ORDER BY ALL")
    copy = Home(Path(shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-copy"))))
    assert "was moved or copied" in str(rows_or_error(copy.warehouse, "FROM transfers"))
    (found,) = (one for one in _warehouse(copy.warehouse) if not one.fine)
    assert "was moved or copied" in found.found and "'holderlake home rebuild --damaged'" in found.advice
    with pytest.raises(WarehouseError, match="was moved or copied"):
        attach(copy.warehouse.path, files=True)
    copy.warehouse.load(copy.lake)
    assert copy.warehouse.query("FROM transfers ORDER BY ALL") == right
    assert all(one.fine for one in _warehouse(copy.warehouse))
    copy.store.close()


def forged(lake: Lake, data: bytes) -> Path:
    """Replace the rows of a partition by other bytes, with a manifest that has their checksum."""
    write_holders(lake, "bsc", DAYS[0], {"0xa": {"0x1": 1}})
    path = lake.path("holders", "bsc", DAYS[0])
    path.write_bytes(data)
    place = next(one for one in lake.manifest_paths() if "chain=bsc" in str(one))
    manifest = read_manifest(place)
    assert manifest is not None
    file = replace(manifest.tables["holders"], bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    forgery = replace(manifest, tables=manifest.tables | {"holders": file})
    place.write_bytes(msgspec.json.encode(sealed(forgery)))
    return path


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


FORGERIES = {"no Parquet": b"text", "other columns": parquet(pa.table({"a": [1]})), "empty": b"PAR1PAR1"}


@pytest.mark.later(long=1)
@pytest.mark.parametrize("data", FORGERIES.values(), ids=FORGERIES)
def test_a_partition_that_cannot_be_read_does_not_stop_the_load(home: Home, data: bytes) -> None:
    path = forged(home.lake, data)
    write_holders(home.lake, "eth", DAYS[1], {"0xa": {"0x1": 1}})
    report = home.warehouse.load(home.lake)
    assert [str(path) in message for message in report.damaged] == [True]
    assert home.warehouse.query("FROM holders").num_rows == 2
    assert not list(home.warehouse.path.parent.glob("warehouse.duckdb.damaged-*")), "the good file stays"


@pytest.mark.parametrize("data", FORGERIES.values(), ids=FORGERIES)
def test_a_pulled_partition_counts_only_when_it_can_be_read(tmp_path: Path, data: bytes) -> None:
    source, bucket, target = Lake(tmp_path / "a"), open_bucket(f"file://{tmp_path}/bucket"), Lake(tmp_path / "b")
    write_holders(source, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    forged(source, data)
    push(source, bucket)
    moved = pull(target, bucket)
    (refused,) = moved.refused
    assert "chain=bsc" in refused
    assert [one.chain for one in target.manifests()] == ["eth"]


def test_a_pull_reads_no_more_than_a_manifest_lists(tmp_path: Path) -> None:
    source, bucket, target = Lake(tmp_path / "a"), open_bucket(f"file://{tmp_path}/bucket"), Lake(tmp_path / "b")
    write_holders(source, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    push(source, bucket)
    (path,) = (tmp_path / "bucket" / "holders").rglob("*.parquet")
    path.unlink()
    path.symlink_to("/dev/zero")
    assert len(pull(target, open_bucket(f"file://{tmp_path}/bucket")).refused) == 1
    assert not list(target.manifests())


@pytest.mark.parametrize("name", ["chain=..", "chain=a b", "chain=eth/timestamp=x"])
def test_a_pull_makes_no_path_from_a_foreign_name(tmp_path: Path, name: str) -> None:
    bucket, target = open_bucket(f"file://{tmp_path}/bucket"), Lake(tmp_path / "b")
    path = f"_manifests/{name}" + ("" if "timestamp" in name else "/timestamp=20260501T000000Z")
    (tmp_path / "bucket" / path).mkdir(parents=True)
    (tmp_path / "bucket" / path / "holders.json").write_text("{}")
    moved = pull(target, bucket)
    assert [path in one for one in moved.refused] == [True]
    assert not list(target.root.glob("_manifests/*"))
