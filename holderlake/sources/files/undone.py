"""Rows of blocks that a reorganisation undid: logs that are marked as removed, and heights with two block hashes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.units import counted
from holderlake.sources.formats import FORMATS_TABLE, first_spelt, folded_name, spellings
from holderlake.sources.problems import bad_source
from holderlake.sources.raw_rows import RawTable, rows_where

_REMOVED: Final[Mapping[str, Sequence[str]]] = FORMATS_TABLE["removed"]
_PLACES: Final[Mapping[str, Sequence[str]]] = FORMATS_TABLE["places"]


def without_undone(raw: RawTable) -> RawTable:
    """Return the file without the logs that are marked as removed, and without the earlier copies of these.

    A log that is sent again after its removal stays. Rows are in the order of time, or in the reverse order if the
    first block of the file is above the last one.
    """
    spelt = spellings(raw.columns)
    marks = {spelt[folded_name(name)]: values for name, values in _REMOVED.items() if folded_name(name) in spelt}
    is_removed = pa.repeat(False, raw.table.num_rows)
    for name, values in marks.items():
        texts = pc.utf8_lower(pc.utf8_trim_whitespace(raw.table[name].cast(pa.string())))
        is_removed = pc.or_(is_removed, pc.is_in(texts, pa.array(values)).combine_chunks())
    if not pc.any(is_removed).as_py():
        return raw
    rows = pa.array(range(raw.table.num_rows), pa.int64())
    order = pc.negate(rows) if _descends(raw) else rows
    keys = _keys(raw, marks)
    names = keys.column_names
    table = keys.append_column("row", rows).append_column("order", order)
    removals = table.filter(is_removed).group_by(names).aggregate([("order", "max")])
    joined = table.join(removals, names).sort_by("row")
    undone = pc.fill_null(pc.less_equal(joined["order"], joined["order_max"]), False).combine_chunks()
    copies = table.filter(pc.invert(is_removed)).select(names).group_by(names).aggregate([])
    unknown = removals.join(copies, names, join_type="left anti").num_rows
    notice = (
        f"{raw.path.name}: {counted(unknown, 'removed log')} without an earlier copy in this file. If an earlier file "
        "has the copy, it is still counted: join the files in order, and import the joined file into a new home"
    )
    raw = replace(raw, notices=(*raw.notices, notice)) if unknown else raw
    return rows_where(raw, pc.invert(undone))


def _descends(raw: RawTable) -> bool:
    """Return whether the first row's block is above the last row's."""
    name = first_spelt(raw.columns, _PLACES["block_number"])
    if name is None:
        return False
    first, last = (raw.table[name][place].as_py() for place in (0, raw.table.num_rows - 1))
    try:
        return int(str(first), 0) > int(str(last), 0)
    except ValueError:
        return False


def _keys(raw: RawTable, marks: Collection[str]) -> pa.Table:
    """Return the columns by which a log and its removal are equal, as text: block, transaction and index of the log."""
    kinds = ((*_PLACES["block_hash"], *_PLACES["block_number"]), _PLACES["tx_hash"], _PLACES["log_index"])
    found = [first_spelt(raw.columns, usual_names) for usual_names in kinds]
    names = [name for name in found if name is not None]
    if len(names) < len(kinds):  # only equal rows are then of one log
        names = [name for name in raw.columns if name not in marks and not pa.types.is_nested(raw.table[name].type)]
    texts = (raw.table[name] for name in names)
    plain = [_text(column) for column in texts]
    return pa.table(plain, [f"key{number}" for number in range(len(plain))])


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_binary(column.type) or pa.types.is_fixed_size_binary(column.type):
        return pc.fill_null(column.cast(pa.binary()), b"")
    return pc.fill_null(pc.utf8_lower(column.cast(pa.string())), "")


class BlockHashes:
    """The block hashes of the files of one import, by chain and block number."""

    def __init__(self) -> None:
        self._seen: pa.Table | None = None

    def add(self, path: Path, hashes: pa.Table | None) -> None:
        """Add the hashes of a file, as ``noted_hashes`` returns them.

        Raises ``BadSource`` if an earlier file has another hash of a block.
        """
        if hashes is None:
            return
        known = hashes.filter(pc.is_valid(hashes["block_hash"])).group_by(hashes.column_names).aggregate([])
        if self._seen is None:
            self._seen = known
            return
        both = self._seen.join(known, ["chain", "block_number"], join_type="inner", right_suffix="_new")
        other = both.filter(pc.not_equal(both["block_hash"], both["block_hash_new"]))
        if other.num_rows:
            raise bad_source(
                path,
                f"block {other['block_number'][0]} has another hash than in an earlier file, so a reorganisation "
                "replaced one of the two blocks; export the one that is not on the chain again",
            )
        self._seen = pa.concat_tables([self._seen, known]).group_by(known.column_names).aggregate([])


def noted_hashes(raw: RawTable) -> pa.Table | None:
    """Return chain, block number and block hash of each row as text, a blank hash as null; None without the columns.

    Add a problem for each row of a block number that has two block hashes. The columns of ``raw`` have our names.
    """
    hashes = _block_hashes(raw)
    if hashes is None:
        return None
    pairs = hashes.group_by(["chain", "block_number"]).aggregate([("block_hash", "count_distinct")])
    several = pairs.filter(pc.greater(pairs["block_hash_count_distinct"], 1))
    if not several.num_rows:
        return hashes
    rows = pa.array(range(hashes.num_rows), pa.int64())
    joined = hashes.append_column("row", rows).join(several, ["chain", "block_number"]).sort_by("row")
    is_one = pc.and_(pc.is_valid(joined["block_hash_count_distinct"]), pc.is_valid(joined["block_hash"]))
    reasons = pc.binary_join_element_wise("block", joined["block_number"], _TWO_HASHES, " ")
    name = spellings(raw.columns)["blockhash"]
    raw.problems.add(name, pc.if_else(is_one, reasons, pa.scalar(None, pa.string())).combine_chunks())
    return hashes


_TWO_HASHES: Final = (
    "has two hashes in the file, so a reorganisation replaced one of the two blocks; remove the rows of the block that "
    "is not on the chain (or the column, on a chain with several blocks of one number)"
)


def _block_hashes(raw: RawTable) -> pa.Table | None:
    spelt = spellings(raw.columns)
    if "blockhash" not in spelt or "block_number" not in raw.columns:
        return None
    hashes = _text(raw.table[spelt["blockhash"]])
    chain = next((spelt[name] for name in ("chain", "chainid", "blockchain") if name in spelt), None)
    return pa.table(
        {
            "chain": pa.repeat("", raw.table.num_rows) if chain is None else _text(raw.table[chain]),
            "block_number": _text(raw.table["block_number"]),
            "block_hash": pc.if_else(pc.less_equal(pc.binary_length(hashes), 2), None, hashes),
        }
    )
