"""A disk, process or path that makes a store unusable is reported in one sentence, and nothing is half written."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holderlake.engine.catalog import catalog
from holderlake.engine.catalog.catalog_copy import CATALOG
from holderlake.engine.errors import UnusableStore
from holderlake.engine.store.store import Store
from holderlake.sources.rpc.checkpoints import Checkpoints
from tests.engine.damaged import files_of
from tests.engine.world import held, holders, table, transfer


def many(count: int) -> list[dict[str, object]]:
    """Transfers to as many addresses."""
    return [transfer(f"mint -> wallet{number}", number + 1, at=number + 1) for number in range(count)]


def names(root: Path) -> set[str]:
    """All files of a store except SQLite's own."""
    return {path.name for path in files_of(root) if not path.name.startswith("catalog")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store that holds one transfer."""
    with Store(tmp_path / "store") as store:
        store.add_transfers(table([transfer("mint -> a", 5)]), "file")
    return tmp_path / "store"


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file of this process may grow beyond the size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte; only root can mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False
    ).returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_stops_an_import_in_a_sentence_and_leaves_no_file(small_disk: Path) -> None:
    with Store(small_disk / "store") as store:
        store.add_transfers(table([transfer("mint -> a", 5)]), "file")
        before = names(store.root)
        with pytest.raises(UnusableStore, match="the disk is full, nothing was stored; free some space"):
            store.add_transfers(table(many(10_000)), "large")
        assert names(store.root) == before
        assert holders(store) == [("a", 5)]


def test_an_import_that_met_a_limit_is_repeated_without_it(root: Path) -> None:
    rows = table(many(3_000))
    with Store(root) as store:
        before = names(root)
        with file_size_limit(60_000), pytest.raises(UnusableStore, match="file size limit of this process is reached"):
            store.add_transfers(rows, "large")
        assert names(root) == before
        assert store.add_transfers(rows, "large").added == 3_000
        assert len(held(store)) == 3_001


def test_a_locked_catalogue_is_reported_in_a_sentence(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_BUSY_SECONDS", 0.05)
    with Store(root) as store, closing(sqlite3.connect(root / CATALOG)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnusableStore, match="is locked by another process; wait for it to end, or stop it"):
            store.add_transfers(table([transfer("a -> b", 1)]), "file")


def test_a_catalogue_that_is_not_sqlite_is_refused_and_left_as_it_is(root: Path) -> None:
    (root / CATALOG).write_bytes(b"not a database" * 1_000)
    with pytest.raises(UnusableStore, match="is damaged or not a SQLite database; run 'holderlake store rebuild'"):
        Store(root)
    assert (root / CATALOG).read_bytes() == b"not a database" * 1_000


def test_an_older_catalogue_is_refused(root: Path) -> None:
    older = (root / CATALOG).read_bytes()
    with Store(root) as store:
        store.add_transfers(table([transfer("a -> b", 1, at=9)]), "file")
    (root / CATALOG).write_bytes(older)
    with pytest.raises(UnusableStore, match="is older than its copy"):
        Store(root)


def test_an_older_catalogue_without_its_copy_is_refused(root: Path) -> None:
    older = (root / CATALOG).read_bytes()
    with Store(root) as store:
        store.add_transfers(table([transfer("mint -> b", 1, at=9, token=("eth", "other"))]), "file")
    before = names(root)
    (root / CATALOG).write_bytes(older)
    (root / "catalog-copy.sqlite").unlink()
    with pytest.raises(UnusableStore, match="unlisted files of transfers: 1"):
        Store(root)
    assert names(root) == before


def test_a_store_folder_that_is_a_file_is_reported_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"")
    with pytest.raises(UnusableStore, match="is a file, not a folder; name another folder"):
        Store(tmp_path / "store")


def test_a_read_only_store_is_reported_in_a_sentence(root: Path) -> None:
    if subprocess.run(["mount", "--bind", "-o", "ro", root, root], capture_output=True, check=False).returncode:
        pytest.skip("mounting read-only needs root")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", root], check=True)
        with pytest.raises(UnusableStore, match=r"right to read and write|right to write|mount it for writing"):
            Store(root)
    finally:
        subprocess.run(["umount", "-l", root], check=True)


def test_damaged_checkpoints_of_nodes_are_reported_with_the_remedy(root: Path) -> None:
    (root / "nodes.sqlite").write_bytes(b"not a database" * 1_000)
    with pytest.raises(UnusableStore, match=r"nodes\.sqlite cannot be used .* move it away and repeat the command"):
        Checkpoints(root, "eth")
