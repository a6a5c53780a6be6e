"""A damaged store answers right or refuses with the remedy, and never deletes a file that it does not list."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holderlake.engine.catalog import catalog as catalogue
from holderlake.engine.catalog.catalog_copy import CATALOG
from holderlake.engine.errors import BadSource, DamagedFile
from holderlake.engine.files import integrity
from holderlake.engine.files.integrity import Sum, sum_of
from holderlake.engine.store.conversion import convert
from holderlake.engine.store.rebuild import rebuild
from holderlake.engine.store.store import Store
from holderlake.engine.store.verify import verify
from tests.engine.damaged import NEW, TOKENS, answers, copied, files_of, fill, kind_of, outcome
from tests.engine.world import END, held, holders, table, transfer
from tests.helpers.damage import KINDS, damage

CASES = int(os.environ.get("HOLDERLAKE_DAMAGE_CASES", "30"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with every kind of file; tests damage copies of it."""
    root = tmp_path_factory.mktemp("whole")
    fill(root)
    return root


@pytest.fixture(scope="module")
def expected(whole: Path) -> dict[str, Any]:
    """The whole store's answers."""
    with Store(whole) as store:
        return answers(store)


@pytest.mark.long
def test_the_whole_store_is_verified_and_answers(whole: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    root = copied(whole, tmp_path / "store")
    found = verify(root)
    assert not found.damaged
    assert {kind_of(path) for path in files_of(root)} >= {
        CATALOG, "catalog-copy.sqlite", "transfers", "openings", "balances", ".part", ".run", ".volume",
    }  # fmt: skip
    assert outcome(root, expected) == "right"


@pytest.mark.parametrize("way", ["upgrade", "rebuild", "rebuild of a damaged one"])
def test_a_store_of_format_1_is_converted(whole: Path, expected: dict[str, Any], tmp_path: Path, way: str) -> None:
    root = copied(whole, tmp_path / "store")
    shutil.rmtree(root / "balances")
    with catalogue.transaction(root) as catalog:
        catalog.execute("DELETE FROM files WHERE path LIKE 'balances/%'")
        (view,) = catalog.execute("SELECT sql FROM sqlite_master WHERE name = 'listed'").fetchone()
        catalog.execute("DROP VIEW listed")
        catalog.execute(view.replace("UNION ALL SELECT 'balances/' || file || '.parquet' FROM parts", ""))
        catalog.execute("PRAGMA user_version = 1")
    with pytest.raises(BadSource, match="run 'holderlake home upgrade'"):
        Store(root)
    if way == "upgrade":
        convert(root, 10**8)
    else:
        if way != "rebuild":
            damage(next((root / "arrays").glob("*.part")), Random(1), "flip")
        rebuild(root)
    with Store(root) as store:
        assert answers(store) == expected
    assert not verify(root).damaged


@pytest.mark.integration
def test_files_unchanged_since_their_write_are_not_read_for_checksums(
    whole: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read: list[Path] = []

    def noted(path: Path) -> Sum:
        read.append(path)
        return sum_of(path)

    for number, path in enumerate((whole / "balances").iterdir()):  # as a load of the warehouse does
        os.link(path, tmp_path / str(number))
    monkeypatch.setattr(integrity, "sum_of", noted)
    with Store(whole) as store:
        assert answers(store) == expected
    assert not read


def test_a_changed_file_with_its_old_times_is_refused(whole: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    root = copied(whole, tmp_path / "store")
    with Store(root) as store:
        store.add_transfers(table([transfer("x -> y", 5, token=NEW)]), "one more file")
    path = max((root / "balances").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    times = path.stat()
    damage(path, Random(1), "flip")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with Store(root) as store, pytest.raises(DamagedFile, match="changed since it was written"):
        holders(store, token=NEW)


@pytest.mark.parametrize("copy", ["kept", pytest.param("lost", marks=pytest.mark.integration)])
def test_an_emptied_catalogue_never_deletes_transfers(
    whole: Path, expected: dict[str, Any], tmp_path: Path, copy: str
) -> None:
    root = copied(whole, tmp_path / "store")
    (root / CATALOG).write_bytes(b"")
    if copy == "lost":
        (root / "catalog-copy.sqlite").unlink()
    before = files_of(root / "transfers")
    assert outcome(root, expected) == "refused"
    assert files_of(root / "transfers") == before
    done = rebuild(root)
    assert done.catalog == {"kept": "copy", "lost": "files"}[copy]
    with Store(root) as store:
        if copy == "kept":
            assert answers(store) == expected
        assert [held(store, token=key) for key in TOKENS] == [balances(whole, key) for key in TOKENS]


def balances(root: Path, key: tuple[str, str]) -> dict[str, int]:
    with Store(root) as store:
        return held(store, token=key)


def chosen(root: Path, rng: Random) -> Path:
    """A random file, each kind of file as often as the others."""
    by_kind: dict[str, list[Path]] = {}
    for path in files_of(root):
        by_kind.setdefault(kind_of(path), []).append(path)
    return rng.choice(by_kind[rng.choice(sorted(by_kind))])


@pytest.mark.long
@pytest.mark.parametrize("cases", [6, CASES])
def test_random_damage_is_answered_right_or_refused(
    whole: Path, expected: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], cases: int
) -> None:
    outcomes: Counter[tuple[str, str, str]] = Counter()
    for case in range(cases):
        rng = Random(case)
        root = copied(whole, tmp_path / f"store{case}")
        path = chosen(root, rng)
        kind = rng.choice(list(KINDS))
        what = damage(path, rng, kind)
        others = {one.relative_to(root) for one in files_of(root)}
        try:
            found = outcome(root, expected)
            lost = rebuild(root).lost
            with Store(root) as store:
                rest = tuple(key for key in TOKENS if key not in lost)
                assert lost or answers(store) == expected, "a rebuilt store answers as before"
                assert store.labels(["w3"])["w3"].is_cex
                assert all(holders(store, token=key) == expected[f"holders {key} {END}"] for key in rest)
                assert not any(store.history(*key) for key in lost)
            assert not verify(root).damaged
        except BaseException as error:
            error.add_note(f"case {case}: {what}")
            raise
        outcomes[kind_of(path), kind, found] += 1
        gone = {one for one in others if not (root / one).exists() and not (root / "quarantine" / one).exists()}
        assert not {one for one in gone if one.suffix not in (".sqlite-wal", ".sqlite-shm")}, f"case {case}: {what}"
    with capsys.disabled():
        for (file, kind, found), count in sorted(outcomes.items()):
            sys.stdout.write(f"\n{file:22} {kind:9} {found:8} {count:4}")
    assert sum(outcomes.values()) == cases


def test_bits_that_change_without_a_write_are_found(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(10_000))
    whole = sum_of(tmp_path / "file")
    damage(tmp_path / "file", Random(1), "flip")
    sums = {"file": whole._replace(signature=integrity.signature_of(str(tmp_path / "file")))}
    checks = integrity.FileChecks(tmp_path)
    assert checks.path("file", sums) == tmp_path / "file"
    (found,) = checks.read_all(sums)
    assert "changed since it was written" in str(found)
    assert checks.changed("file")
    with pytest.raises(DamagedFile):
        checks.path("file", sums)
    (tmp_path / "file").write_bytes(bytes(10_000))
    assert checks.path("file", sums) == tmp_path / "file"


def test_a_file_that_verify_found_damaged_is_refused(whole: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    root = copied(whole, tmp_path / "store")
    parts = sorted((root / "balances").iterdir())
    for part in parts:
        damage(part, Random(1), "flip")
    with catalogue.transaction(root) as catalog:  # as if the bits had changed without a write
        for part in parts:
            seen = (integrity.signature_of(str(part)), f"balances/{part.name}")
            catalog.execute("UPDATE files SET signature = ? WHERE path = ?", seen)
    assert verify(root).damaged
    assert outcome(root, expected) == "refused"
