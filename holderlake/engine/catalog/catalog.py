"""Connect to the catalogue of a store (a small SQLite file), make its tables, and run transactions.

``tokens``, ``labels``, ``rules`` and ``indexed_tokens`` read and write its tables.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final

from holderlake.core.storage.formats import format_fault
from holderlake.core.storage.sqlite import format_of, use_write_ahead_log
from holderlake.engine.catalog import catalog_copy
from holderlake.engine.catalog.catalog_copy import CATALOG
from holderlake.engine.errors import BadSource, DamagedCatalog, UnusableStore
from holderlake.engine.files.disk_errors import REBUILD, sqlite_failures

_log = logging.getLogger(__name__)

EMPTY: Final = "none.parquet"
"""Name of a Parquet file without rows. Queries over a store without transfers read this file."""

FORMAT: Final = 2
"""Format of a store: of its catalogue, which has it as ``PRAGMA user_version``, and of all other files. Format 1 had
balances as arrays; ``store.conversion`` writes them as Parquet."""
_SCHEMA: Final = files("holderlake.engine.catalog").joinpath("catalog.sql").read_text("utf-8")
_BUSY_SECONDS: Final = 60.0


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


def prepare(catalog: sqlite3.Connection, root: Path) -> None:
    """Make the tables of a new catalogue, in one transaction.

    An existing catalogue is not written, so opening a store does not wait for a running import. Raises ``BadSource``
    for a store of another format.
    """
    with sqlite_failures(root / CATALOG):
        if not format_of(catalog):
            with _count_write(catalog, root):
                catalog.execute("BEGIN IMMEDIATE")
                if not format_of(catalog):  # else another process has made them meanwhile
                    if next(raw_files(root), None):
                        raise DamagedCatalog(
                            f"{root / CATALOG} lists nothing although {root} holds files of transfers; {REBUILD} to "
                            "add them"
                        )
                    _make_tables(catalog)
        catalog_copy.check(catalog, root)  # first, because damage may change the format's number
        _check_format(catalog, root)


def is_outdated(root: Path) -> bool:
    """Return whether the store in ``root`` has an earlier format. Raises ``BadSource`` if it has a later one."""
    if not _exists(root):
        return False
    uri = f"{(root / CATALOG).absolute().as_uri()}?mode=ro"
    with sqlite_failures(root / CATALOG), closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as catalog:
        is_earlier = 0 < format_of(catalog) < FORMAT
        if not is_earlier:
            _check_format(catalog, root)
        return is_earlier


def _check_format(catalog: sqlite3.Connection, root: Path) -> None:
    if fault := format_fault(root, format_of(catalog), FORMAT):
        raise BadSource(fault)


def _make_tables(catalog: sqlite3.Connection) -> None:
    update_tables(catalog)
    catalog.execute("INSERT INTO settings VALUES ('writes', '0')")


def update_tables(catalog: sqlite3.Connection) -> None:
    """Make the missing tables and the views of the present format, in the open transaction."""
    _run(catalog, _SCHEMA)
    catalog.execute(f"PRAGMA user_version = {FORMAT}")


def _run(catalog: sqlite3.Connection, script: str) -> None:
    """Run each statement of a script in the open transaction. ``executescript`` is not used, because it would commit
    first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            catalog.execute(statement)
            statement = ""
