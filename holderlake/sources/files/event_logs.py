"""Decode event logs of EVM chains (``eth_getLogs``, ethers, web3, cryo, ethereum-etl) into rows of our own layout.

``rpc.events`` decodes the events. Other events than transfers are skipped, also those that only resemble transfers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.sources.raw_rows import RawTable
from holderlake.sources.rpc.events import is_partly_indexed, moves_of

LOG_COLUMNS: Final = frozenset({"address", "topics", "data", "block_number", "log_index", "tx_hash"})
"""The columns of logs under our names; ``presets`` has their names in exports."""

_PREFIX: Final = r"^(?:0[xX]|\\+[xX])"
_TOPIC_LIST: Final = (
    "^[^,]*?(?P<t0>[0-9a-fA-F]{64})[^,]*?"
    + "".join(f"(?:,[^,]*?(?P<t{number}>[0-9a-fA-F]{{64}})[^,]*?)?" for number in (1, 2, 3))
    + "(?:,[^,]{0,8})*$"
)
"""Pattern of a text with up to four topics of 64 hexadecimal digits.

The topics are separated by commas, or are in a list of JSON, Python or PostgreSQL.
"""
_NO_TEXT: Final = pa.scalar(None, pa.string())
_BYTES: Final = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_DECODED: Final = ("token_standard", "from_address", "to_address", "value", "token_id")


def decoded_logs(raw: RawTable) -> RawTable:
    """Return the transfers among the logs as rows of our own layout. A ``TransferBatch`` has a row for each of its
    items."""
    tokens = raw.table["address"].combine_chunks()
    partly: Counter[str] = Counter()
    rows: list[int] = []
    moves: list[Sequence[str | None]] = []
    data = pc.binary_join_element_wise("0x", pc.fill_null(_digits(raw.table["data"]), "-"), "")
    for row, (*topics, content) in enumerate(
        zip(*(column.to_pylist() for column in (*_topics(raw), data)), strict=True)
    ):
        present = [f"0x{topic}" for topic in topics[: topics.index(None) if None in topics else None]]
        found = moves_of(present, content)
        for move in found or ():
            rows.append(row)
            moves.append(move)
        if found is None and is_partly_indexed(present, content):
            partly[f"0x{_digits(tokens.slice(row, 1))[0]}"] += 1
    places = pa.array(rows, pa.int64())
    carried = [name for name in raw.columns if name not in {*_DECODED, "token_address", "topics", "data", "address"}]
    table = raw.table.select(carried).take(places).append_column("token_address", tokens.take(places))
    for name, values in zip(_DECODED, zip(*moves, strict=True) if moves else [()] * len(_DECODED), strict=True):
        table = table.append_column(name, pa.array(values, pa.string()))
    passed_over = raw.passed_over + raw.table.num_rows - len(places.unique())
    numbers = places if raw.numbers is None else raw.numbers.take(places)
    return replace(raw, table=table, numbers=numbers, passed_over=passed_over, partly_indexed=partly, is_evm=True)


def _topics(raw: RawTable) -> list[pa.Array]:
    """Return the topics of the logs as four columns with 64 hexadecimal digits. A missing topic is null."""
    if "topic1" in raw.columns or "topic_1" in raw.columns:
        prefix = "topic_" if "topic_1" in raw.columns else "topic"
        names = ["topics", *(f"{prefix}{number}" for number in (1, 2, 3))]
        absent = pa.nulls(raw.table.num_rows, pa.string())
        return [_some(_digits(raw.table[name])) if name in raw.columns else absent for name in names]
    column: Any = raw.table["topics"].combine_chunks()
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        four = pc.list_slice(column, 0, 4, return_fixed_size_list=True)
        return [_digits(pc.list_element(four, number)) for number in range(4)]
    groups = pc.extract_regex(column.cast(pa.string()), _TOPIC_LIST)
    return [_some(pc.utf8_lower(pc.struct_field(groups, [name]))) for name in ("t0", "t1", "t2", "t3")]


def _some(texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(texts, ""), _NO_TEXT, texts)


def _digits(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return hexadecimal digits in lower case, from bytes or from text with or without a prefix; null for other
    text."""
    if any(are_bytes(column.type) for are_bytes in _BYTES):
        return pa.array([None if value is None else value.hex() for value in column.to_pylist()], pa.string())
    digits = pc.replace_substring_regex(pc.utf8_trim_whitespace(column.cast(pa.string())), _PREFIX, "")
    return pc.if_else(pc.match_substring_regex(digits, "^[0-9a-fA-F]*$"), pc.utf8_lower(digits), _NO_TEXT)
