"""Connect to the catalogue of a store (a small SQLite file), run transactions, and update catalogues of older versions.

``tokens``, ``labels``, ``rules`` and ``indexed_tokens`` read and write its tables.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Final

from holderlake.contract.chains import NATIVE
from holderlake.engine.catalog import catalog_copy, indexed_tokens
from holderlake.engine.catalog.catalog_copy import CATALOG
from holderlake.engine.catalog.changelog import EVERY_PAST, note_change
from holderlake.engine.catalog.tokens import folded, save_words
from holderlake.engine.errors import BadSource, DamagedCatalog, UnusableStore
from holderlake.engine.files.disk_errors import REBUILD, sqlite_failures
from holderlake.engine.records import Key
from holderlake.storage.sqlite import use_write_ahead_log

_log = logging.getLogger(__name__)

EMPTY: Final = "none.parquet"
"""Name of a Parquet file without rows. Queries over a store without transfers read this file."""

_FORMAT: Final = "2"
_FIRST_FORMAT: Final = "1"
_VERSION: Final = 6
"""Version of the tables (``PRAGMA user_version``). Increase it with every new table or column."""
_SCHEMA: Final = files("holderlake.engine.catalog").joinpath("catalog.sql").read_text()
_ADD_FOLDED_TEXTS: Final = """
ALTER TABLE tokens ADD COLUMN folded_symbol TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN folded_name TEXT NOT NULL DEFAULT '';
UPDATE tokens SET folded_symbol = folded(symbol), folded_name = folded(name);
DROP INDEX IF EXISTS tokens_by_symbol;
DROP INDEX IF EXISTS tokens_by_name;
"""
_BUSY_SECONDS: Final = 60.0

MigrateHistories = Callable[[sqlite3.Connection, Sequence[tuple[str, str, str]]], None]
"""A function that makes the array files of a store in the old format 1.

Its arguments are a connection, and for each token a tuple of chain, token address and Parquet file (name without
suffix).
"""


def connect(root: Path) -> sqlite3.Connection:
    """Connect to the catalogue of the store in ``root``. Threads may share the connection if they use it one at a time.

    Raises ``DamagedCatalog`` if the catalogue is missing or empty although there are files of transfers.
    """
    if not _exists(root) and next(raw_files(root), None):
        raise DamagedCatalog(
            f"{root / CATALOG} is missing or empty although {root} holds files of transfers; "
            f"{REBUILD} to restore it from its copy or the files"
        )
    return _connect(root)


def make(root: Path) -> None:
    """Make a new catalogue that lists no files. ``store.rebuild`` then lists the existing files of transfers."""
    with closing(_connect(root)) as catalog, sqlite_failures(root / CATALOG), _count_write(catalog, root):
        catalog.execute("BEGIN IMMEDIATE")
        _make_tables(catalog)
    catalog_copy.trust(root)


def _connect(root: Path) -> sqlite3.Connection:
    with sqlite_failures(root / CATALOG):
        connection = sqlite3.connect(root / CATALOG, timeout=_BUSY_SECONDS, check_same_thread=False)
        try:
            use_write_ahead_log(connection, _BUSY_SECONDS)
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
    return connection


def _exists(root: Path) -> bool:
    """Return whether the catalogue's file has content. An empty file does not count, because SQLite creates one on
    connecting."""
    try:
        return os.stat(f"{root}/{CATALOG}").st_size > 0  # noqa: PTH116 - for each connection, and a Path costs more
    except OSError:
        return False


def raw_files(root: Path) -> Iterator[Path]:
    """Yield all Parquet files of transfers and opening balances in a store's folder.

    Files that the catalogue does not list are included.
    """
    for folder in ("transfers", "openings"):
        for path in sorted((root / folder).glob("*.parquet")):
            if path.name != EMPTY and not path.name.startswith("."):
                yield path


@contextmanager
def transaction(root: Path) -> Iterator[sqlite3.Connection]:
    """Context manager of one transaction. It connects to the catalogue in ``root``, and commits and closes at the end.

    An exception rolls the transaction back. Raises ``DamagedCatalog`` if the catalogue differs from its copy.
    """
    connection = connect(root)
    changes_before = connection.total_changes
    try:
        with sqlite_failures(root / CATALOG):
            catalog_copy.check(connection, root)
            with _count_write(connection, root):
                yield connection
    finally:
        wrote = connection.total_changes > changes_before
        connection.close()
        if wrote:
            catalog_copy.trust(root)


@contextmanager
def _count_write(connection: sqlite3.Connection, root: Path) -> Iterator[None]:
    """Context manager around the statements of a transaction. If they write, increase the catalogue's number of
    writes by one and replace the copy."""
    changes_before = connection.total_changes
    with connection:
        yield
        wrote = connection.total_changes > changes_before
        if wrote:
            catalog_copy.count_write(connection)
    if wrote:
        try:
            catalog_copy.save_copy(connection, root)
        except UnusableStore as error:
            _log.warning("%s; the change itself is stored, and the next write makes the catalogue's copy", error)


def prepare(catalog: sqlite3.Connection, root: Path, migrate: MigrateHistories) -> None:
    """Make the catalogue's tables, or update the tables of an older version, in one transaction.

    If the version is current, nothing is written, so opening a store does not wait for a running import. ``migrate`` is
    a function that makes the array files of a store in the old format 1. Raises ``BadSource`` and changes nothing if
    the store's format is unknown.
    """
    with sqlite_failures(root / CATALOG):
        if _version(catalog) < _VERSION:
            with _count_write(catalog, root):
                catalog.execute("BEGIN IMMEDIATE")
                if _version(catalog) < _VERSION:  # else another process has updated it meanwhile
                    _update(catalog, root, migrate)
        _check_format(catalog, root, {_FORMAT})
        catalog_copy.check(catalog, root)


def is_current(root: Path) -> bool:
    """Return whether the catalogue of a store needs no update. Nothing is changed.

    Raises ``BadSource`` for an unknown format.
    """
    uri = f"{(root / CATALOG).absolute().as_uri()}?mode=ro"
    with sqlite_failures(root / CATALOG), closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as catalog:
        store_format = _check_format(catalog, root, {_FIRST_FORMAT, _FORMAT})
        return store_format == _FORMAT and _version(catalog) >= _VERSION


def _update(catalog: sqlite3.Connection, root: Path, migrate: MigrateHistories) -> None:
    columns = {row[1] for row in catalog.execute("PRAGMA table_info(tokens)")}
    histories: list[tuple[str, str, str]] = []
    if not columns and next(raw_files(root), None):
        raise DamagedCatalog(
            f"{root / CATALOG} lists nothing although {root} holds files of transfers; {REBUILD} to add them"
        )
    if columns and _check_format(catalog, root, {_FIRST_FORMAT, _FORMAT}) == _FIRST_FORMAT:
        histories = catalog.execute("SELECT chain, token_address, file FROM histories ORDER BY 1, 2").fetchall()
        catalog.execute("DROP TABLE histories")
    if columns and "folded_symbol" not in columns:
        catalog.create_function("folded", 1, folded, deterministic=True)
        _run(catalog, _ADD_FOLDED_TEXTS)
    columns_of_files = {row[1] for row in catalog.execute("PRAGMA table_info(files)")}
    if columns_of_files and "signature" not in columns_of_files:
        catalog.execute("ALTER TABLE files ADD COLUMN signature TEXT")
    _make_tables(catalog)
    if columns:
        save_words(catalog, catalog.execute("SELECT chain, address, name FROM tokens").fetchall())
        _add_marks(catalog, root)
    if histories:
        migrate(catalog, histories)


def _make_tables(catalog: sqlite3.Connection) -> None:
    _run(catalog, _SCHEMA)
    catalog.execute("INSERT OR REPLACE INTO settings VALUES ('format', ?)", (_FORMAT,))
    catalog.execute(f"PRAGMA user_version = {_VERSION}")


def _add_marks(catalog: sqlite3.Connection, root: Path) -> None:
    """Mark tokens as indexed in a catalogue of an older version, which has no marks.

    The tokens are those that were indexed before, and those that the user named for ``import node``.
    """
    if catalog.execute("SELECT EXISTS (SELECT 1 FROM index_marks)").fetchone() == (1,):
        return
    indexed = catalog.execute("SELECT chain, address FROM tokens WHERE is_indexed = 1").fetchall()
    indexed_tokens.mark(catalog, indexed, indexed_tokens.LISTED, True)
    if indexed_tokens.mark(catalog, _tokens_of_checkpoints(root), indexed_tokens.IMPORT, True):
        note_change(catalog, EVERY_PAST)


def _tokens_of_checkpoints(root: Path) -> list[Key]:
    path = root / "nodes.sqlite"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as nodes, suppress(sqlite3.DatabaseError):
        scopes = nodes.execute("SELECT DISTINCT chain, scope FROM covered WHERE scope <> '*'").fetchall()
        return sorted({(chain, NATIVE if scope == "internal" else scope) for chain, scope in scopes})
    return []


def _version(catalog: sqlite3.Connection) -> int:
    (version,) = catalog.execute("PRAGMA user_version").fetchone()
    return int(version)


def _check_format(catalog: sqlite3.Connection, root: Path, formats: Collection[str]) -> str:
    (store_format,) = catalog.execute("SELECT value FROM settings WHERE name = 'format'").fetchone()
    if store_format not in formats:
        raise BadSource(
            f"{root} holds a store of format {store_format}, and this version of Holderlake reads format {_FORMAT}: "
            "install the version of Holderlake that wrote the store, or a later one"
        )
    return str(store_format)


def _run(catalog: sqlite3.Connection, script: str) -> None:
    """Run each statement of a script in the open transaction. ``executescript`` is not used, because it would commit
    first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            catalog.execute(statement)
            statement = ""
