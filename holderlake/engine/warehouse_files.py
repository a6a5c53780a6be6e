"""The transfers of the user's own store, for the view ``transfers``.

The store replaces its Parquet files when it imports. So a load makes a folder of hard links to the present files, and
the warehouse reads these: its transfers stay those of the load. The folder has the layout that DuckDB and others prune
by path: ``transfers/chain=<chain>/token_address=<token>/<file>.parquet``. ``openings/`` has opening balances and
corrections in the same way, and ``balances/`` the balances by second that follow from each file of the two. Next to
them, ``tokens.parquet`` and ``labels.parquet`` have the store's
tokens and labels, and ``changes.parquet`` its changes. ``cluster_links.parquet`` and ``entities.parquet`` have the
wallets of one owner, ``verified.parquet`` the checks against nodes, and ``undone.parquet`` the transfers that
reorganisations undid.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from holderlake.core.storage.parquet import parquet_fault
from holderlake.engine.records import SQL_TYPES, TRANSFERS, schema_of

TOKENS: Final = schema_of(
    "chain VARCHAR, token_address VARCHAR, symbol VARCHAR, name VARCHAR, decimals BIGINT, "
    "has_assumed_decimals BOOLEAN, token_standard VARCHAR, transfers BIGINT, first_transfer TIMESTAMP, "
    "last_transfer TIMESTAMP"
)
"""Columns of ``tokens.parquet``, one row for each token with transfers. Times are UTC."""
LABELS: Final = schema_of(
    "chain VARCHAR?, address VARCHAR, kind VARCHAR?, label VARCHAR?, valid_from TIMESTAMP?, valid_to TIMESTAMP?"
)
"""Columns of ``labels.parquet``, one row for each time in which an address has one label on a chain.

``chain`` is null for chains that have no row of the address. ``kind`` is burn (an address without an owner: mints come
from it, burns go to it), cex, dex, contract or null. ``valid_from`` and ``valid_to`` (UTC) are the first and last
second; null without such an end.
"""

CHANGES: Final = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("first_time", pa.timestamp("s"), nullable=False),
    ]
)
"""Columns of ``changes.parquet``, one row for each change that goes further back than all later ones.

Answers as of ``first_time`` (UTC) or later may have changed.
"""

_log = logging.getLogger(__name__)

Key = tuple[str, str]
"""The chain and address of a token."""

_ATTEMPTS: Final = 10
_KEPT_VERSIONS: Final = 2
_HIVE: Final = "hive_partitioning = true, hive_types = {'chain': VARCHAR, 'token_address': VARCHAR}"


def _columns(text: str) -> dict[str, str]:
    """Return the type of each column by name, from ``name TYPE, name TYPE``."""
    return dict(column.split(" ", 1) for column in text.split(", "))


def _columns_of(schema: pa.Schema) -> dict[str, str]:
    names = {kind: name for name, kind in SQL_TYPES.items()}
    return {field.name: names[field.type] for field in schema}


_TRANSFER: Final = _columns_of(TRANSFERS) | {"block_time": "TIMESTAMP"}
_VIEWS: Final = {
    "transfer_files": ("transfers", _TRANSFER),
    "opening_files": ("openings", _TRANSFER),
    "balance_files": ("balances", _columns(
        "chain VARCHAR, token_address VARCHAR, address VARCHAR, since BIGINT, until BIGINT, balance DECIMAL(38,0), "
        "wide_balance VARCHAR, is_base BOOLEAN"
    )),
    "stored_tokens": ("tokens.parquet", _columns_of(TOKENS)),
    "labels": ("labels.parquet", _columns_of(LABELS)),
    "store_changes": ("changes.parquet", _columns("number BIGINT, first_time TIMESTAMP")),
    "stored_links": ("cluster_links.parquet", _columns(
        "kind VARCHAR, link BIGINT, address VARCHAR, through VARCHAR, confidence DOUBLE, transfers BIGINT, "
        "first_time TIMESTAMP, last_time TIMESTAMP, as_of TIMESTAMP"
    )),
    "stored_entities": ("entities.parquet", _columns(
        "entity VARCHAR, address VARCHAR, wallets BIGINT, confidence DOUBLE, kinds VARCHAR[], certain_entity VARCHAR, "
        "as_of TIMESTAMP"
    )),
    "entity_searches": ("entity_searches.parquet", _columns(
        "as_of TIMESTAMP, confidence DOUBLE, transfers BIGINT, entities BIGINT, joined BIGINT"
    )),
    "stored_checks": ("verified.parquet", _columns(
        "chain VARCHAR, token_address VARCHAR, is_complete BOOLEAN, balances VARCHAR, first_block BIGINT, "
        "last_block BIGINT, as_of TIMESTAMP, checked_at TIMESTAMP, source VARCHAR, blocks BIGINT, events BIGINT, "
        "missing_rows BIGINT, extra_rows BIGINT, unread_blocks BIGINT, first_difference BIGINT, last_difference BIGINT"
    )),
    "undone_transfers": ("undone.parquet", _TRANSFER | {"undone_at": "TIMESTAMP"}),
}  # fmt: skip
"""The file, or the folder of files by token, of each view, and the view's columns."""


@dataclass(frozen=True)
class StoredTransfers:
    """The transfers of a store at one moment.

    ``version`` is a text that changes with the store. ``files`` has the Parquet files by chain and token address, in
    the folders ``transfers``, ``openings`` and ``balances``. ``tables`` returns the tables ``tokens`` (schema
    ``TOKENS``), ``labels`` (``LABELS``) and ``changes``. ``findings`` has the files
    ``cluster_links.parquet`` and ``entities.parquet`` (see ``entities.links``), ``verified.parquet`` and
    ``undone.parquet``, as far as they exist.
    """

    version: str
    files: Mapping[str, Mapping[Key, Sequence[Path]]]
    tables: Callable[[], Mapping[str, pa.Table]]
    findings: Sequence[Path] = ()


ReadTransfers = Callable[[], StoredTransfers | None]
"""A function that returns the store's transfers at present, or None if there is no store that can be read."""


def views(folder: Path | None) -> str:
    """Return SQL that creates the views of a folder's files; views without rows if it or their files are missing."""
    statements = ["CREATE SCHEMA IF NOT EXISTS _internal;\n"]
    for view, (name, columns) in _VIEWS.items():
        is_file = name.endswith(".parquet")
        files = name if is_file else f"{name}/*/*/*.parquet"
        has_files = folder is not None and next(folder.glob(files), None) is not None
        values = {column: column for column in columns} | {"block_time": "make_timestamp(block_time * 1000000)"}
        selected = ", ".join(
            f"CAST({values[column] if has_files else 'NULL'} AS {kind}) AS {column}" for column, kind in columns.items()
        )
        options = "hive_partitioning = false" if is_file else _HIVE
        source = f"FROM read_parquet({_literal(folder / files)}, {options})" if folder and has_files else "WHERE false"
        statements.append(f"CREATE OR REPLACE VIEW _internal.{view} AS\nSELECT {selected}\n{source};\n")
    return "".join(statements)


def _literal(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def link(root: Path, read: ReadTransfers) -> str | None:
    """Make a folder in ``root`` with links to the store's present files, unless there is one. Return its name.

    None if there is no store. Raises ``FileNotFoundError`` if files vanish again and again meanwhile.
    """
    for _ in range(_ATTEMPTS):
        transfers = read()
        if transfers is None:
            return None
        if (root / transfers.version).exists():
            return transfers.version
        with suppress(FileNotFoundError):  # an import has replaced a file: ask for the files again
            _make(root, transfers)
            return transfers.version
    raise FileNotFoundError(f"the store's files changed {_ATTEMPTS} times while {root} was made; load again")


def remove_old(root: Path) -> None:
    """Remove all folders of links but the newest two: a reader may have the warehouse of the load before open."""
    folders = sorted(root.glob("*"), key=lambda path: path.stat().st_mtime)
    for folder in folders[:-_KEPT_VERSIONS]:
        shutil.rmtree(folder, ignore_errors=True)


def _make(root: Path, transfers: StoredTransfers) -> None:
    building = root / f".{transfers.version}"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    linked = {(path.parts[-4], path.name): path for path in root.glob("[!.]*/*/*/*/*.parquet")}
    for folder, files in transfers.files.items():
        for key, paths in files.items():
            target = _token_folder(building / folder, key)
            for path in paths:
                _link_readable(linked.get((folder, path.name), path), target / path.name, every_byte=False)
            if folder == "balances" and len(list(target.iterdir())) < len(paths):
                shutil.rmtree(target)  # a balance is the sum over all files of the token
    for path in transfers.findings:
        _link_readable(path, building / path.name, every_byte=True)
    for name, table in transfers.tables().items():
        pq.write_table(table, building / f"{name}.parquet", write_page_checksum=True, write_statistics=False)
    building.rename(root / transfers.version)


def _token_folder(folder: Path, key: Key) -> Path:
    """Make and return the folder of a token's files."""
    chain, token = (quote(text, safe="") for text in key)
    target = folder / f"chain={chain}" / f"token_address={token}"
    target.mkdir(parents=True, exist_ok=True)
    return target


def _link_readable(source: Path, target: Path, *, every_byte: bool) -> None:
    """Link a file of the store (``_link``), unless it is damaged: the warehouse then has the other files only."""
    _link(source, target)
    reason = parquet_fault(target, every_byte=every_byte)
    if reason:
        target.unlink()
        _log.warning(
            "%s is damaged (%s) and is left out; 'holderlake store verify' says how to repair it", source, reason
        )


def _link(source: Path, target: Path) -> None:
    """Make a hard link, or a copy if the store is on another file system or this one has no links."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)
