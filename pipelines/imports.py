"""``holderlake import`` and ``labels``: files into the engine's store, with what was found said in a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contract.times import utc_now
from engine.indexed import IMPORT
from engine.records import ImportReport
from engine.sources.files import read_transfers
from engine.sources.labels import read_labels
from engine.sources.mapping import ColumnMap, read_block_times
from engine.sources.token_lists import read_tokens
from pipelines import show
from pipelines.negatives import of_tokens, print_some
from pipelines.stores import open_own_store
from resources.settings import Settings


@dataclass(frozen=True)
class Reading:
    """How transfer files are to be read, where that can't be told from their columns: a format's name, the chain, a map
    of columns, and files of blocks that hold their times."""

    layout: str | None = None
    chain: str | None = None
    column_map: ColumnMap = field(default_factory=ColumnMap)
    blocks: Sequence[Path] = ()

    @property
    def is_chosen(self) -> bool:
        return bool(self.layout or self.column_map)


def import_paths(settings: Settings, paths: Sequence[Path], reading: Reading, as_json: bool) -> None:
    """Imports transfer files and token lists. A file is read whole before anything of it is stored.

    Raises ``BadSource`` at the first file that can't be read; files before it are imported.
    """
    reports: list[dict[str, Any]] = []
    negative: list[dict[str, Any]] = []
    times = read_block_times(reading.blocks)
    with open_own_store(settings) as store, show.progress("importing", len(paths)) as bar:
        for path in paths:
            if path.name.removesuffix(".gz").endswith(".json") and not reading.is_chosen:
                reports.append({"file": path.name, "tokens": store.add_tokens(read_tokens(path))})
            else:
                rows = read_transfers(path, reading.layout, reading.chain, reading.column_map, times)
                report = store.add_transfers(rows, path.name)
                if "token_address" in reading.column_map.constants:
                    store.index_tokens(report.keys, IMPORT)  # it was imported by name
                below = of_tokens(store, report.keys, utc_now()).to_pylist()
                negative = [row for row in negative if (row["chain"], row["token_address"]) not in report.keys] + below
                reports.append(_transfers_line(report, below))
            bar.advance(bar.task_ids[0])
    if as_json:
        show.as_json(reports)
        return
    columns = ("file", "tokens", "rows", "added", "duplicates", "conflicts", "negative balances")
    show.rows("Imported", columns, ([line.get(column) for column in columns] for line in reports))
    print_some(negative)


def label_paths(settings: Settings, paths: Sequence[Path], as_json: bool) -> None:
    """Imports label files. Raises ``BadSource`` at the first one that can't be read."""
    reports = []
    with open_own_store(settings) as store, show.progress("importing", len(paths)) as bar:
        for path in paths:
            found = read_labels(path)
            reports.append({"file": path.name, "labels": store.add_labels(found.labels), "passed over": found.skipped})
            bar.advance(bar.task_ids[0])
    if as_json:
        show.as_json(reports)
    else:
        show.rows("Imported", ("file", "labels", "passed over"), (list(line.values()) for line in reports))


def _transfers_line(report: ImportReport, negative: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "file": report.source,
        "tokens": len(report.tokens),
        "rows": report.rows,
        "added": report.added,
        "duplicates": report.duplicates,
        "conflicts": report.conflicts,
        "negative balances": len(negative),
        "negative addresses": negative,
    }
