"""Repair a store: restore the catalogue from its copy or from the files, and import the transfers of damaged files
again.

Nothing is deleted. Damaged and replaced files are moved to the store's quarantine folder.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.units import parse_memory_limit
from holderlake.engine.catalog import catalog as catalogue
from holderlake.engine.catalog import catalog_copy
from holderlake.engine.catalog.changelog import EVERY_PAST, note_change
from holderlake.engine.catalog.corrections import CORRECTIONS
from holderlake.engine.catalog.opening_balances import OPENING_BALANCES
from holderlake.engine.errors import BadSource, DamagedCatalog
from holderlake.engine.importing.paths import files_of_import, imports_under_way, remove_spool
from holderlake.engine.importing.rows import read_rows
from holderlake.engine.records import TRANSFERS
from holderlake.engine.store.conversion import convert
from holderlake.engine.store.store import Store
from holderlake.engine.store.unlisted import set_aside, unlisted_files
from holderlake.engine.store.verify import DERIVED, verify

_BATCH: Final = 65_536
_NODES: Final = "nodes.sqlite"
_DROP_ALL: Final = ("DELETE FROM parts", "DELETE FROM runs", "DELETE FROM volumes", "DELETE FROM files")

_BY_NUMBER: Final = "token = (SELECT number FROM histories WHERE chain = ? AND token_address = ?)"
_PATHS: Final = f"""
SELECT path FROM parts JOIN listed ON path LIKE '%/' || file || '.pa%' WHERE {_BY_NUMBER}
"""
_DROP: Final = f"DELETE FROM parts WHERE {_BY_NUMBER}"

Say = Callable[[str], None]
"""A function that is called with a message about each step."""


@dataclass
class Rebuilt:
    """Result of a rebuild.

    - ``catalog``: the source of the catalogue. ``kept``: it was good and stayed. ``copy``: it was restored from its
      copy. ``files``: it was made from the files of transfers.
    - ``remade``: the derived files that were made again.
    - ``added``: number of rows from files that the catalogue did not list.
    - ``set_aside``: the files that were moved to quarantine.
    - ``lost``: the tokens (chain, address) whose transfers must be imported again.
    - ``corrections``: for each token (chain, address) whose corrections were not kept, the unix seconds at which its
      balances must be read again.
    """

    catalog: str = "kept"
    remade: list[str] = field(default_factory=list)
    added: int = 0
    set_aside: list[str] = field(default_factory=list)
    lost: list[tuple[str, str]] = field(default_factory=list)
    corrections: dict[tuple[str, str], list[int]] = field(default_factory=dict)


def rebuild(root: Path, memory_limit: str = "2GB", say: Say = lambda text: None) -> Rebuilt:
    """Repair a store in place. If the repair is interrupted, run it again.

    A catalogue that is lost, damaged or older than its copy is restored from the copy. Without a copy, it is made from
    the files of transfers; then labels, token lists and marks of indexed tokens must be imported again. ``say`` is
    called with a message about each step. Raises ``UnusableStore`` if the disk or another process prevents the repair.
    """
    done = Rebuilt()
    _restore_catalog(root, done, say)
    say("checking all files")
    damaged = verify(root).damaged
    derived = [damage.path for damage in damaged if damage.path.startswith(DERIVED)]
    is_outdated = catalogue.is_outdated(root)
    starts_over = any(path.endswith(".volume") for path in derived) or (is_outdated and bool(derived))
    _drop_lost(root, sorted({damage.token for damage in damaged if damage.token}), done)
    if derived:
        _drop_derived(root, derived, everything=starts_over)
    if is_outdated:
        convert(root, parse_memory_limit(memory_limit))
    with Store(root, None, memory_limit, refuse_unlisted=False) as store:
        if derived or done.lost:
            say("making all derived files again" if starts_over else "making derived files again")
            with store.change() as (_, change):
                change.remake_runs()
                change.record_files()
        _add_unlisted(store, done, say)
    done.remade += derived
    with _writing(root):
        pass  # a write, which makes the catalogue's copy again
    return done


@contextmanager
def _writing(root: Path) -> Iterator[sqlite3.Connection]:
    """Context manager of a transaction of the catalogue.

    At the end it records a change of all instants, so that no earlier answer stays valid.
    """
    with catalogue.transaction(root) as catalog:
        catalog.execute("BEGIN IMMEDIATE")
        yield catalog
        note_change(catalog, EVERY_PAST)


def _restore_catalog(root: Path, done: Rebuilt, say: Say) -> None:
    try:
        with catalogue.transaction(root) as catalog:
            catalog_copy.check(catalog, root, always=True)
            (result,) = catalog.execute("PRAGMA integrity_check(1)").fetchone()
            catalog.execute("SELECT count(*) FROM settings").fetchone()
        if result == "ok":
            return
    except DamagedCatalog:
        pass
    image = catalog_copy.read_copy(root)
    say("restoring the catalogue from its copy" if image else "making the catalogue again from the files")
    moved_files = [name for name in (catalog_copy.CATALOG, *catalog_copy.SIDE_FILES) if (root / name).exists()]
    set_aside(root, moved_files, "damaged or older than the store")
    done.set_aside += moved_files
    done.catalog = "copy" if image else "files"
    if image:
        catalog_copy.restore(root, image)
        return
    (root / catalog_copy.COPY).unlink(missing_ok=True)  # it is damaged, else it would have been used
    killed = {number: files_of_import(root, number) for number in imports_under_way(root)}
    for number, paths in killed.items():
        set_aside(root, paths, "of an import that did not end")
        done.set_aside += paths
        remove_spool(root, number)
    catalogue.make(root)


def _add_unlisted(store: Store, done: Rebuilt, say: Say) -> None:
    """Import the rows of unlisted files into new files, and move the unlisted files to quarantine."""
    with store.change() as (catalog, _):
        paths = [path for path in unlisted_files(catalog, store.root) if not path.startswith(DERIVED)]
    readable = [path for path in paths if _can_be_read(store.root / path)]
    if readable:
        say(f"adding the transfers of {len(readable)} files")
    openings = [path for path in readable if path.startswith("openings/")]
    transfers = [path for path in readable if not path.startswith("openings/")]
    if openings:
        _note_corrections(store.root, openings, done)
        rows = pa.concat_tables(list(_rows(store.root, openings)))
        # a correction is a difference from the rows that were stored when it was made, which nothing here shows
        rows = rows.filter(pc.not_equal(rows["source"], CORRECTIONS))
        balances = rows.rename_columns({"to_address": "address", "value": "balance"}).select(OPENING_BALANCES.names)
        done.added += store.add_opening_balances(balances).added
    if transfers:
        batches = (batch for rows in _rows(store.root, transfers) for batch in rows.to_batches())
        done.added += store.add_transfers(pa.RecordBatchReader.from_batches(TRANSFERS, batches), "rebuild").added
    with store.change() as (catalog, _):
        paths_left = unlisted_files(catalog, store.root)
    set_aside(store.root, paths_left, "not listed in the catalogue, or their rows are in new files")
    done.set_aside += paths_left


def _note_corrections(root: Path, paths: Sequence[str], done: Rebuilt) -> None:
    """Add the tokens and times of the corrections in Parquet files to ``done.corrections``."""
    for rows in _rows(root, paths):
        corrections = rows.filter(pc.equal(rows["source"], CORRECTIONS))
        for chain, token, second in zip(
            *(corrections[name].to_pylist() for name in ("chain", "token_address", "block_time")), strict=True
        ):
            seconds = done.corrections.setdefault((chain, token), [])
            if second not in seconds:
                seconds.append(second)


def _rows(root: Path, paths: Sequence[str]) -> Iterator[pa.Table]:
    for path in paths:
        yield from read_rows(root / path, _BATCH)


def _can_be_read(path: Path) -> bool:
    try:
        for _ in read_rows(path, _BATCH):
            pass
    except (BadSource, OSError, pa.ArrowException, KeyError):
        return False
    return True


def _drop_lost(root: Path, lost_tokens: Sequence[tuple[str, str]], done: Rebuilt) -> None:
    """Remove all parts of ``lost_tokens`` (chain, address): tokens that lost a file of transfers or opening balances.

    The remaining files of such a token would give wrong balances, so they are moved to quarantine. The file of
    checkpoints is moved there too. Otherwise ``import node`` would not read the lost blocks again.
    """
    if not lost_tokens:
        return
    with _writing(root) as catalog:
        paths = [path for key in lost_tokens for (path,) in catalog.execute(_PATHS, key)]
        for key in lost_tokens:
            catalog.execute(_DROP, key)
        catalog.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in paths])
    moved_files = [path for path in paths if (root / path).exists()]
    openings = [path for path in moved_files if path.startswith("openings/") and _can_be_read(root / path)]
    _note_corrections(root, openings, done)
    if (root / _NODES).exists():
        moved_files.append(_NODES)  # else an import would skip blocks that must be read again
    set_aside(root, moved_files, "of tokens that lost a file of transfers")
    done.lost += lost_tokens
    done.set_aside += moved_files


def _drop_derived(root: Path, derived: Sequence[str], *, everything: bool) -> None:
    """Remove the parts that have one of the damaged files ``derived`` from the catalogue, so that their transfers are
    imported again. With ``everything``, remove all files: without the dictionary, they can't be used."""
    with _writing(root) as catalog:
        for statement in _DROP_ALL if everything else ():
            catalog.execute(statement)
        for name in {Path(path).stem for path in derived}:
            catalog.execute("DELETE FROM parts WHERE file = ?", (name,))
            catalog.execute("DELETE FROM files WHERE path LIKE '%/' || ? || '.%'", (name,))
