"""The transfers of the user's own store, for the view ``transfers``.

The store replaces its Parquet files when it imports. So a load makes a folder of hard links to the present files, and
the warehouse reads these: its transfers stay those of the load. The folder has the layout that DuckDB and others prune
by path: ``transfers/chain=<chain>/token_address=<token>/<file>.parquet``. ``openings/`` has opening balances and
corrections in the same way, and ``balances/`` the balances by second that follow from each file of the two. Next to
them, ``tokens.parquet`` and ``labels.parquet`` have the store's
tokens and labels, and ``changes.parquet`` its changes. ``cluster_links.parquet`` and ``entities.parquet`` have the
wallets of one owner, ``verified.parquet`` the checks against nodes, and ``undone.parquet`` the transfers that
reorganisations undid. ``sums.json`` has the size and checksum of each file.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from holderlake.core.storage.atomic_files import write_whole
from holderlake.core.storage.parquet import parquet_fault
from holderlake.engine.files.integrity import Sum, fault_of, signature_of, sum_of
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

_SUMS: Final = "sums.json"
_DAMAGED_FOLDER: Final = "damaged_"
_AT_LINK: Final = "the store's own file was damaged when it was to be linked"
_DAMAGED: Final = (
    "error('{}: a file of the store of ' || chain || '/' || token_address || ' is damaged; "
    "''holderlake store rebuild'' repairs it')"
)
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
    ``undone.parquet``, as far as they exist. ``sums`` has the recorded checksums of files.
    """

    version: str
    files: Mapping[str, Mapping[Key, Sequence[Path]]]
    tables: Callable[[], Mapping[str, pa.Table]]
    findings: Sequence[Path] = ()
    sums: Mapping[Path, Sum] = field(default_factory=dict)


ReadTransfers = Callable[[], StoredTransfers | None]
"""A function that returns the store's transfers at present, or None if there is no store that can be read."""


def views(folder: Path | None) -> str:
    """Return SQL that creates the views of a folder's files; views without rows if it or their files are missing.

    A query that reads a token of which the store had a damaged file ends with an error, because it would lack rows. The
    error is a condition on a file of that token alone, so DuckDB meets it only where it reads the token.
    """
    statements = ["CREATE SCHEMA IF NOT EXISTS _internal;\n"]
    for view, (name, columns) in _VIEWS.items():
        is_file = name.endswith(".parquet")
        options = "hive_partitioning = false" if is_file else _HIVE
        source = _source(folder, name if is_file else f"{name}/*/*/*.parquet", options)
        values = {column: column for column in columns} | {"block_time": "make_timestamp(block_time * 1000000)"}
        selects = [_select(columns, values, source) if source else _select(columns, {}, "WHERE false")]
        if damaged := _source(folder, f"{_DAMAGED_FOLDER}{name}/*/*/*.parquet", options):
            # As a value of each column too: a condition on a column without values would come before the error.
            error = _DAMAGED.format(name)
            values = dict.fromkeys(columns, error) | {"chain": "chain", "token_address": "token_address"}
            selects.append(_select(columns, values, f"{damaged}\nWHERE {error}::BOOLEAN"))
        statements.append(f"CREATE OR REPLACE VIEW _internal.{view} AS\n" + "\nUNION ALL\n".join(selects) + ";\n")
    return "".join(statements)


def _source(folder: Path | None, files: str, options: str) -> str | None:
    has_files = folder is not None and next(folder.glob(files), None) is not None
    return f"FROM read_parquet({_literal(folder / files)}, {options})" if folder and has_files else None


def _select(columns: Mapping[str, str], values: Mapping[str, str], source: str) -> str:
    selected = (f"CAST({values.get(column, 'NULL')} AS {kind}) AS {column}" for column, kind in columns.items())
    return f"SELECT {', '.join(selected)}\n{source}"


def _literal(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def faults(folder: Path, *, every_byte: bool = False, is_new: bool = False) -> dict[Path, str]:
    """Return the files of a folder that differ from ``sums.json``, with the difference.

    A folder of an earlier version has no such file. Unless ``every_byte`` is true, only files with another size or time
    are read. With ``is_new``, the files that the store had damaged when the folder was made are left out.
    """
    try:
        sums = _sums_of(folder)
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        return {folder / _SUMS: f"can't be read ({error})"}
    by_path = {
        folder / name: fault_of(folder / name, sum_, every_byte=every_byte) if sum_.signature else _AT_LINK
        for name, sum_ in sums.items()
        if sum_.signature or not is_new
    }
    return {path: fault for path, fault in by_path.items() if fault}


def _sums_of(folder: Path) -> dict[str, Sum]:
    path = folder / _SUMS
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Sum]) if path.exists() else {}


def link(root: Path, read: ReadTransfers) -> str | None:
    """Make a folder in ``root`` with links to the store's present files, unless there is one. Return its name.

    A folder with damaged files is replaced, if the store's own files are better. None if there is no store. Raises
    ``FileNotFoundError`` if files vanish again and again meanwhile.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        transfers = read()
        if transfers is None:
            return None
        folder = next(iter(root.glob(f"{transfers.version}.*")), None)
        damaged = faults(folder, every_byte=False) if folder else {}
        if folder and not damaged:
            _record_signatures(folder)
            return folder.name
        with suppress(FileNotFoundError):  # an import has replaced a file: ask for the files again
            building = _made(root, transfers, is_last=attempt == _ATTEMPTS)
            if folder and len(faults(building, every_byte=False)) >= len(damaged):
                shutil.rmtree(building)
                return folder.name
            if folder:
                for path, fault in damaged.items():
                    _log.warning("%s %s; it is made again from the store", path, fault)
                folder.rename(root / f".damaged-{folder.name}")
            return building.rename(root / f"{transfers.version}.{uuid4().hex[:6]}").name
    raise FileNotFoundError(f"the store's files changed {_ATTEMPTS} times while {root} was made; load again")


def _record_signatures(folder: Path) -> None:
    """Record the present signatures of intact files. They change when a home is restored or copied."""
    sums = _sums_of(folder)
    present = {
        name: sum_._replace(signature=signature_of(str(folder / name))) if sum_.signature else sum_
        for name, sum_ in sums.items()
    }
    if present != sums:
        _write_sums(folder, present)


def _write_sums(folder: Path, sums: Mapping[str, Sum]) -> None:
    write_whole(folder / _SUMS, msgspec.json.encode(sums))


def remove_old(root: Path) -> None:
    """Remove all folders of links but the newest two: a reader may have the warehouse of the load before open."""
    folders = sorted(root.glob("*"), key=lambda path: path.stat().st_mtime)
    for folder in folders[:-_KEPT_VERSIONS]:
        shutil.rmtree(folder, ignore_errors=True)


def _made(root: Path, transfers: StoredTransfers, is_last: bool) -> Path:
    """Return a new folder of links. Damaged files of the store are left out, without a signature in ``sums.json``, and
    their tokens have a file in another folder.

    With ``is_last``, missing files are damaged ones. After damage, every byte is read: a bit that flipped on the disk
    changes neither the size nor the times of a file.
    """
    building = root / f".{transfers.version}"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    every_byte = any(root.glob(".damaged-*"))
    linked = {(path.parts[-4], path.name): path for path in root.glob("[!.]*/*/*/*/*.parquet")}
    sums: dict[Path, Sum] = {}
    for folder, files in transfers.files.items():
        for key, paths in files.items():
            target = _token_folder(building / folder, key)
            for path in paths:
                sources = dict.fromkeys((linked.get((folder, path.name), path), path))
                sums[target / path.name] = _link_intact(sources, target / path.name, transfers.sums[path], every_byte)
                if sums[target / path.name].signature:
                    continue
                if not path.exists() and not is_last:
                    raise FileNotFoundError(path)
                mark = _token_folder(building / f"{_DAMAGED_FOLDER}{folder}", key) / "damaged.parquet"
                pq.write_table(pa.table({"file": [path.name]}), mark)
                sums[mark] = sum_of(mark)
    for path in transfers.findings:
        if fault := parquet_fault(path):
            _log.warning("%s is damaged (%s) and is left out; make it again", path, fault)
            continue
        _link(path, building / path.name)
        sums[building / path.name] = sum_of(building / path.name)
    for name, table in transfers.tables().items():
        path = building / f"{name}.parquet"
        pq.write_table(table, path, write_page_checksum=True, write_statistics=False)
        sums[path] = sum_of(path)
    _write_sums(building, {str(path.relative_to(building)): sum_ for path, sum_ in sums.items()})
    return building


def _link_intact(sources: Iterable[Path], target: Path, expected: Sum, every_byte: bool) -> Sum:
    """Link the first intact file of ``sources``. Return its ``Sum``, without a signature if there is none."""
    for source in sources:
        with suppress(FileNotFoundError):
            _link(source, target)
        fault = fault_of(target, expected, every_byte=every_byte)
        if fault is None:
            return expected._replace(signature=signature_of(str(target)))
        target.unlink(missing_ok=True)
    _log.warning("%s %s and is left out; 'holderlake store verify' says how to repair it", source, fault)
    return expected._replace(signature=None)


def _token_folder(folder: Path, key: Key) -> Path:
    """Make and return the folder of a token's files."""
    chain, token = (quote(text, safe="") for text in key)
    target = folder / f"chain={chain}" / f"token_address={token}"
    target.mkdir(parents=True, exist_ok=True)
    return target


def _link(source: Path, target: Path) -> None:
    """Make a hard link, or a copy if the store is on another file system or this one has no links."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)
