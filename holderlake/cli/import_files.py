"""``holderlake import files`` and ``import labels``: read files into the engine's store, and print a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holderlake.cli.negative_balances import of_tokens, passing_of_tokens, print_summary
from holderlake.core.contract.times import utc_now
from holderlake.core.settings import Settings
from holderlake.core.storage.atomic_files import whole_file
from holderlake.core.units import counted
from holderlake.engine.catalog.indexed_tokens import IMPORT, IndexedToken, indexed_tokens
from holderlake.engine.errors import BadSource
from holderlake.engine.records import ImportReport, Key
from holderlake.engine.store.store import Store
from holderlake.errors import SomeFailed
from holderlake.presentation import console
from holderlake.sources.files.mapping import ColumnMap, read_block_times
from holderlake.sources.files.transfers import FileOptions, FileTransfers, transfers_of
from holderlake.sources.files.undone import BlockHashes
from holderlake.sources.labels import read_labels
from holderlake.sources.notices import assumed_decimals, notices_of, other_decimals, partly_indexed, rounded_values
from holderlake.sources.problems import Rejected
from holderlake.sources.raw_rows import RawTable, read_raw
from holderlake.sources.store import open_own_store
from holderlake.sources.token_lists import is_token_list, tokens_of

_COLUMNS = ("file", "tokens", "rows", "added", "duplicates", "conflicts")
_OPTIONAL_COLUMNS = ("replaced", "passed over", "rejected", "wrong checksums", "error")
"""Columns of the report that are shown only if a file has a value for them."""

_NO_INDEX = (
    "No token is indexed, so only a token's own transfers connect its holders. 'holderlake store index CHAIN TOKEN' "
    "makes the transfers of a token, such as USDC or native, count on all maps."
)


@dataclass(frozen=True)
class Reading:
    """Options for reading transfer files.

    ``blocks`` are files with the times of blocks. ``rejected`` is the path of a new file for invalid rows. If it is
    None, a file with an invalid row is not imported.
    """

    options: FileOptions = field(default_factory=FileOptions)
    blocks: Sequence[Path] = ()
    rejected: Path | None = None

    @property
    def is_chosen(self) -> bool:
        """True if an option shows that the files contain transfers. Then no file is read as a token list."""
        options = self.options
        return bool(options.format or options.column_map or options.rows_at)


def import_paths(  # noqa: PLR0915 - a report in one place
    settings: Settings, paths: Sequence[Path], reading: Reading, as_json: bool
) -> list[Key]:
    """Import transfer files and token lists, each file completely or not at all, and print a report. Return the tokens
    (chain, address) of the transfers.

    With ``reading.rejected``, invalid rows are written to that file, and the valid rows are imported. Without it, a
    file with an invalid row is not imported. Raises ``BadSource`` if no file was imported, and ``SomeFailed`` if only
    some files were imported.
    """
    if reading.rejected is not None and reading.rejected.exists():
        raise ValueError(f"--rejected {reading.rejected} exists already; use a new file, or remove it")
    options = replace(reading.options, block_times=read_block_times(reading.blocks))
    rejected: list[Rejected] = []
    negative: list[dict[str, Any]] = []
    tokens: set[tuple[str, str]] = set()
    indexed: list[IndexedToken] = []
    messages: list[str] = []
    left_out: list[str] = []
    hashes = BlockHashes()

    def read(path: Path, raw: RawTable) -> FileTransfers:
        file_transfers = transfers_of(raw, options)
        if file_transfers.rejected is not None:
            if reading.rejected is None:
                raise file_transfers.rejected.error()
            rejected.append(file_transfers.rejected)
            _write_rejected(reading.rejected, rejected)
        if len(paths) > 1:
            hashes.add(path, file_transfers.block_hashes)
        return file_transfers

    def imported(store: Store, path: Path) -> dict[str, Any]:
        raw = read_raw(path, options.rows_at)
        if not reading.is_chosen and is_token_list(raw):
            listed = tokens_of(raw)
            left_out.extend(listed.left_out)
            messages.extend(listed.notices)
            line = {"file": path.name, "tokens": store.add_tokens(listed.tokens)}
            lists = {"left out": listed.left_out, "notices": listed.notices}
            return line | {name: sentences for name, sentences in lists.items() if sentences}
        file_transfers = read(path, raw)
        report = store.add_transfers(file_transfers.transfers, path.name)
        if "token_address" in options.column_map.constants:
            store.index_tokens(report.keys, IMPORT)  # the user named the token
        tokens.update(report.keys)
        indexed[:] = store.read(indexed_tokens)
        below = of_tokens(store, report.keys, utc_now()).to_pylist()
        store.add_decimals(file_transfers.decimals)
        notices = [
            *file_transfers.notices,
            *notices_of(file_transfers.transfers),
            *rounded_values(file_transfers.transfers),
            *other_decimals(file_transfers.decimals, store.tokens(report.keys).values()),
            *_several_tokens(options.column_map, path, len(report.keys)),
            *report.undecided,
            *partly_indexed(file_transfers.partly_indexed),
        ]
        messages.extend(notice for notice in notices if notice not in messages)
        negative[:] = [row for row in negative if (row["chain"], row["token_address"]) not in report.keys] + below
        counts = {
            "passed over": file_transfers.passed_over,
            "rejected": len(file_transfers.rejected.rows) if file_transfers.rejected else 0,
            "wrong checksums": file_transfers.wrong_checksums,
            "notices": notices,
            "keys": set(report.keys),
        }
        return _transfers_line(report, below) | counts

    lines, errors = _each_file(settings, paths, imported)
    passing, assumed = _add_facts_of_tokens(settings, lines, sorted(tokens))
    messages.extend(assumed)
    _report(lines, (*_COLUMNS, "negative balances"), as_json)
    for notice in (*messages, *left_out):
        console.err.print(notice, soft_wrap=True)
    if not as_json:
        with open_own_store(settings) as store:
            print_summary(store, negative, passing, utc_now())
        if len(tokens) > 1 and not indexed:
            console.err.print(_NO_INDEX, soft_wrap=True)
    if any(line.get("wrong checksums") for line in lines):
        console.err.print(
            "Addresses with a wrong checksum (EIP-55) were imported in lower case. Check those that were typed by hand."
        )
    _raise_failed(errors, len(paths))
    count = sum(len(rejection.rows) for rejection in rejected)
    if all(line.get("rows") == 0 for line in lines):
        passed_over = sum(line["passed over"] for line in lines)
        reasons = f"; {counted(passed_over, 'row', 'is')} no transfer" if passed_over else ""
        reasons += f"; {counted(count, 'row', 'is')} invalid, see {reading.rejected}" if count else ""
        raise BadSource(f"{lines[0]['file']}: there is no transfer to import{reasons}; check that it is the right file")
    parts = [f"tokens of lists left out: {len(left_out):,}, for example {left_out[0]}"] if left_out else []
    if count:
        parts.append(f"invalid rows: {count:,}; {reading.rejected} has them with their reasons")
    if parts:
        raise SomeFailed(f"{'; '.join(parts)}. Correct them in the original files, and import these again")
    return sorted(tokens)


def _several_tokens(column_map: ColumnMap, path: Path, tokens: int) -> list[str]:
    """Return a sentence if decimals that were set for all rows of a file count for more than one token."""
    places = column_map.constants.get("decimals")
    if places is None or tokens < 2:
        return []
    return [
        f"{path.name}: all {tokens:,} tokens were read with {places} decimals. Set decimals only for a file of one "
        "token, or name the column with those of each row (--map decimals=COLUMN)"
    ]


def _add_facts_of_tokens(
    settings: Settings, lines: list[dict[str, Any]], keys: Sequence[tuple[str, str]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the times below zero that are over, and a notice about assumed decimals, of the imported tokens ``keys``.
    Add them to the report's lines.

    They are computed once after all files, because they need all rows of a token.
    """
    with open_own_store(settings) as store:
        passing: list[dict[str, Any]] = passing_of_tokens(store, keys, utc_now()).to_pylist()
        tokens = store.tokens(keys)
    for line in lines:
        if "keys" in line:
            of_file = line.pop("keys")
            line["negative for a time"] = [row for row in passing if (row["chain"], row["token_address"]) in of_file]
            line["assumed decimals"] = sorted(
                f"{chain}/{address}" for chain, address in of_file if tokens[chain, address].has_assumed_decimals
            )
    notice = assumed_decimals(tokens.values())
    return passing, [notice] if notice else []


def label_paths(settings: Settings, paths: Sequence[Path], as_json: bool) -> None:
    """Import files of address labels, each completely or not at all, and print a report.

    Raises ``BadSource`` if no file was imported, and ``SomeFailed`` if only some files were imported.
    """

    def imported(store: Store, path: Path) -> dict[str, Any]:
        label_file = read_labels(path)
        return {"file": path.name, "labels": store.add_labels(label_file.labels), "passed over": label_file.skipped}

    lines, errors = _each_file(settings, paths, imported)
    _report(lines, ("file", "labels", "passed over"), as_json)
    if not as_json and (passed_over := sum(line.get("passed over", 0) for line in lines)):
        console.out.print(
            f"Passed over: {counted(passed_over, 'row')} without a valid address, a known chain, or a name and a kind",
            soft_wrap=True,
        )
    _raise_failed(errors, len(paths))


def _each_file(
    settings: Settings, paths: Sequence[Path], imported: Callable[[Store, Path], dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[BadSource]]:
    """Call ``imported`` with the user's own store and each file.

    Return a row of the report for each imported file, and the errors of the other files.
    """
    lines: list[dict[str, Any]] = []
    errors: list[BadSource] = []
    with open_own_store(settings) as store, console.progress("importing", len(paths)) as bar:
        for path in paths:
            try:
                lines.append(imported(store, path))
            except BadSource as error:
                errors.append(error)
                lines.append({"file": path.name, "error": str(error)})
            bar.advance(bar.task_ids[0])
    return lines, errors


def _report(lines: list[dict[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    if as_json:
        console.as_json(lines)
    elif any("error" not in line for line in lines):
        present = {name for line in lines for name, value in line.items() if value}
        shown_columns = [*columns, *(name for name in _OPTIONAL_COLUMNS if name not in columns and name in present)]
        console.rows("Imported", shown_columns, ([line.get(column) for column in shown_columns] for line in lines))


def _raise_failed(errors: list[BadSource], files: int) -> None:
    if not errors:
        return
    if len(errors) == files:
        suffix = f"; none of the {counted(files, 'file')} could be imported" if files > 1 else ""
        raise BadSource(f"{errors[0]}{suffix}") from errors[0]
    raise SomeFailed(
        f"{len(errors):,} of {counted(files, 'file')} not imported, for example {errors[0]}; correct them and "
        "import them "
        "again"
    )


def _write_rejected(path: Path, rejected: Sequence[Rejected]) -> None:
    """Write the invalid rows of all files so far to ``path`` as JSON lines. The file is replaced atomically."""
    try:
        with whole_file(path) as building, building.open("w", encoding="utf-8") as file:
            for rejection in rejected:
                file.writelines(rejection.lines())
    except OSError as error:
        raise BadSource(
            f"--rejected {path} cannot be written ({error.strerror}); name another file. The transfer file "
            "was not imported"
        ) from error


def _transfers_line(report: ImportReport, negative: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "file": report.source,
        "tokens": len(report.tokens),
        "rows": report.rows,
        "added": report.added,
        "duplicates": report.duplicates,
        "conflicts": report.conflicts,
        "replaced": report.replaced,
        "negative balances": len(negative),
        "negative addresses": negative,
    }
