"""Decode event logs of EVM chains (``eth_getLogs``, ethers, web3, cryo, ethereum-etl) into rows of our own layout.

ERC-20 and ERC-721 ``Transfer``, ERC-1155 ``TransferSingle`` and ``TransferBatch`` are decoded. Other events are
skipped, also events that only resemble transfers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.sources.raw_rows import RawTable
from holderlake.sources.rpc.events import TRANSFER, TRANSFER_BATCH, TRANSFER_SINGLE, batch_of

LOG_COLUMNS: Final = frozenset({"address", "topics", "data", "block_number", "log_index", "tx_hash"})
"""The columns of logs under our names; ``presets`` has their names in exports."""

_DIGITS: Final = r"^(?:0[xX]|\\+[xX])?([0-9a-fA-F]*)$"
_TOPIC_LIST: Final = (
    "^[^,]*?(?P<t0>[0-9a-fA-F]{64})[^,]*?"
    + "".join(f"(?:,[^,]*?(?P<t{number}>[0-9a-fA-F]{{64}})[^,]*?)?" for number in (1, 2, 3))
    + "(?:,[^,]{0,8})*$"
)
"""Pattern of a text with up to four topics of 64 hexadecimal digits.

The topics are separated by commas, or are in a list of JSON, Python or PostgreSQL.
"""
_PADDED: Final = "^0{24}[0-9a-f]{40}$"
_NO_TEXT: Final = pa.scalar(None, pa.string())
_BYTES: Final = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_DECODED: Final = ("token_standard", "from_address", "to_address", "value", "token_id", "token_address")


def decoded_logs(raw: RawTable) -> RawTable:
    """Return the transfers among the logs as rows of our own layout. A ``TransferBatch`` has a row for each of its
    items."""
    topics, data = _indexed(_topics(raw), _hexadecimal(raw, "data"))
    tokens = _prefixed(_digits(_one_chunk(raw.table["address"]))).filter(_partly_indexed(topics, data))
    is_batch = pc.and_(_is(topics[0], TRANSFER_BATCH), _are_addresses(topics[2], topics[3]))
    kinds = _kinds(topics, data)
    singles = _singles(kinds, topics, data)
    parts = [singles, _batches(pc.indices_nonzero(is_batch), topics, data)]
    decoded = pa.concat_tables(parts).sort_by("row")
    rows = decoded["row"].combine_chunks()
    carried = raw.table.select([name for name in raw.columns if name not in {*_DECODED, "topics", "data", "address"}])
    table = carried.take(rows).append_column("token_address", _one_chunk(raw.table["address"]).take(rows))
    for name in decoded.column_names[1:]:
        table = table.append_column(name, decoded[name])
    passed_over = raw.table.num_rows - len(rows.unique())
    partly = {entry["values"]: entry["counts"] for entry in tokens.value_counts().to_pylist()}
    numbers = rows if raw.numbers is None else raw.numbers.take(rows)
    return replace(
        raw, table=table, numbers=numbers, passed_over=raw.passed_over + passed_over, partly_indexed=partly, is_evm=True
    )


def _partly_indexed(topics: list[pa.Array], data: pa.Array) -> pa.Array:
    """Return a mask of the ``Transfer`` events with one address in a topic and one in the data."""
    is_one = pc.and_(_matches(topics[1], _PADDED), pc.is_null(topics[2]))
    words = _matches(data, "^0{24}[0-9a-f]{104}$")
    return pc.and_(_is(topics[0], TRANSFER), pc.or_(pc.and_(is_one, words), _have_value_in_topic(topics, data)))


def _have_value_in_topic(topics: list[pa.Array], data: pa.Array) -> pa.Array:
    """Return a mask of the logs with three topics, a value in one of them and an address in the data.

    ``rpc.decoding.events`` has the reasons.
    """
    first, second = (pc.and_(_matches(topic, "^0{40}"), pc.invert(_matches(topic, "^0{60}"))) for topic in topics[1:3])
    is_address = pc.and_(_matches(data, _PADDED), pc.invert(_matches(data, "^0{32}")))
    has_three = pc.and_(pc.is_valid(topics[2]), pc.is_null(topics[3]))
    return pc.and_(pc.and_(is_address, has_three), pc.or_(first, second))


def _matches(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.fill_null(pc.match_substring_regex(texts, pattern), False)


def _indexed(topics: list[pa.Array], data: pa.Array) -> tuple[list[pa.Array], pa.Array]:
    """Return topics and data as if every ``Transfer`` had its addresses in topics.

    Early tokens, for example CryptoKitties, declare no field as indexed. Their addresses are the first two words of
    the data. An event with one address in a topic is not changed: it does not show which of the two it is.
    """
    bare = pc.and_(_is(topics[0], TRANSFER), pc.match_substring_regex(data, "^(?:0{24}[0-9a-f]{40}){2}[0-9a-f]{64}$"))
    bare = pc.and_(bare, pc.and_(*(pc.is_null(topic) for topic in topics[1:3])))
    words = [pc.utf8_slice_codeunits(data, 64 * word, 64 * (word + 1)) for word in range(3)]
    ends = [pc.if_else(bare, word, topic) for word, topic in zip(words, topics[1:3], strict=False)]
    return [topics[0], *ends, topics[3]], pc.if_else(bare, words[2], data)


def _kinds(topics: list[pa.Array], data: pa.Array) -> pa.Array:
    """Return the token standard of each log that is a single transfer, and null for other logs."""
    transfer = pc.and_(_is(topics[0], TRANSFER), _are_addresses(topics[1], topics[2]))
    transfer = pc.and_(transfer, pc.invert(_have_value_in_topic(topics, data)))
    word = pc.match_substring_regex(data, "^[0-9a-f]{64}$")
    fungible = pc.and_(pc.and_(transfer, pc.is_null(topics[3])), word)
    item = pc.and_(pc.and_(transfer, pc.is_valid(topics[3])), pc.equal(data, ""))
    single = pc.and_(_is(topics[0], TRANSFER_SINGLE), _are_addresses(topics[2], topics[3]))
    single = pc.and_(single, pc.match_substring_regex(data, "^[0-9a-f]{128}$"))
    return pc.case_when(pc.make_struct(fungible, item, single), "erc20", "erc721", "erc1155", _NO_TEXT)


def _singles(kinds: pa.Array, topics: list[pa.Array], data: pa.Array) -> pa.Table:
    rows = pc.indices_nonzero(pc.is_valid(kinds))
    standard, words = kinds.take(rows), data.take(rows)
    topic1, topic2, topic3 = (topic.take(rows) for topic in topics[1:])
    several = pc.equal(standard, "erc1155")
    fungible = pc.equal(standard, "erc20")
    item = pc.if_else(several, pc.utf8_slice_codeunits(words, 0, 64), topic3)
    value = pc.if_else(several, pc.utf8_slice_codeunits(words, 64, 128), words)
    return _table(
        rows,
        standard,
        pc.if_else(several, topic2, topic1),
        pc.if_else(several, topic3, topic2),
        pc.if_else(pc.equal(standard, "erc721"), "1", _prefixed(value)),
        pc.if_else(fungible, _NO_TEXT, _prefixed(item)),
    )


def _batches(rows: pa.Array, topics: list[pa.Array], data: pa.Array) -> pa.Table:
    """Return a row for each item of the ``TransferBatch`` events.

    The events are decoded one by one, because they are few and their data differ in length.
    """
    item_rows: list[tuple[int, str, str]] = []
    for row in rows.to_pylist():
        words = data[row].as_py()
        has_whole_words = words is not None and len(words) % 64 == 0
        items = batch_of(words) if has_whole_words else None
        item_rows += [(row, str(value), str(item)) for item, value in (items or {}).items()]
    places = pa.array([row for row, _, _ in item_rows], pa.uint64())
    values, items = (pa.array([item_row[at] for item_row in item_rows], pa.string()) for at in (1, 2))
    standard = pa.repeat(pa.scalar("erc1155", pa.string()), len(item_rows))
    return _table(places, standard, topics[2].take(places), topics[3].take(places), values, items)


def _table(
    rows: pa.Array, standard: pa.Array, sender: pa.Array, receiver: pa.Array, value: pa.Array, item: pa.Array
) -> pa.Table:
    columns = (rows, standard, _prefixed(sender), _prefixed(receiver), value, item)
    return pa.table(list(columns), ["row", *_DECODED[:5]])


def _topics(raw: RawTable) -> list[pa.Array]:
    """Return the topics of the logs as four columns with 64 hexadecimal digits. A missing topic is null."""
    if "topic1" in raw.columns or "topic_1" in raw.columns:
        prefix = "topic_" if "topic_1" in raw.columns else "topic"
        names = ["topics", *(f"{prefix}{number}" for number in (1, 2, 3))]
        topic_columns = [_hexadecimal(raw, name) if name in raw.columns else None for name in names]
        absent = pa.nulls(raw.table.num_rows, pa.string())
        return [
            absent if column is None else pc.if_else(pc.equal(column, ""), _NO_TEXT, column) for column in topic_columns
        ]
    column = _one_chunk(raw.table["topics"])
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        four = pc.list_slice(column, 0, 4, return_fixed_size_list=True)
        return [_digits(pc.list_element(four, number)) for number in range(4)]
    groups = pc.extract_regex(column.cast(pa.string()), _TOPIC_LIST)
    texts = [pc.utf8_lower(pc.struct_field(groups, [name])) for name in ("t0", "t1", "t2", "t3")]
    return [pc.if_else(pc.equal(text, ""), _NO_TEXT, text) for text in texts]


def _hexadecimal(raw: RawTable, name: str) -> pa.Array:
    return pc.fill_null(_digits(_one_chunk(raw.table[name])), "")


def _digits(column: pa.Array) -> pa.Array:
    """Return hexadecimal digits in lower case, from bytes or from text with or without a prefix; null for other
    text."""
    if any(are_bytes(column.type) for are_bytes in _BYTES):
        return pa.array([None if value is None else value.hex() for value in column.to_pylist()], pa.string())
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    return pc.if_else(
        pc.match_substring_regex(text, _DIGITS),
        pc.utf8_lower(pc.replace_substring_regex(text, r"^(?:0[xX]|\\+[xX])", "")),
        _NO_TEXT,
    )


def _is(topic: pa.Array, signature: str) -> pa.Array:
    return pc.fill_null(pc.equal(topic, signature[2:]), False)


def _are_addresses(*topics: pa.Array) -> pa.Array:
    sender, receiver = (_matches(topic, _PADDED) for topic in topics)
    return pc.and_(sender, receiver)


def _prefixed(digits: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("0x", digits, "")


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
