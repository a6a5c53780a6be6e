"""Check and convert columns of a raw file: amounts, addresses, hashes, whole numbers, times, chains.

A function takes the raw table and the name of a column, and returns the converted column. An invalid value becomes
null, and the reason is added to the table's problems. A column of a wrong type raises ``BadSource``. For speed, equal
values are parsed once, and Arrow functions parse the common forms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.chains import (
    ADDRESSES_OF_64_DIGITS,
    BITCOINS,
    CHAIN_BY_EVM_ID,
    CHAIN_ID_FORM,
    chain_named,
    family_of,
    is_chain_id,
    one_spelling,
)
from holderlake.core.contract.chains.address_columns import parse_addresses, wrong_checksums
from holderlake.core.contract.chains.addresses import NO_VALUE, parse_address, parse_token, shown
from holderlake.sources.files.values import (
    FIRST_SECOND,
    LAST_SECOND,
    MAX_DECIMALS,
    NO_TIME,
    has_more_digits_than_floats,
    parse_hash,
    parse_hashes,
    parse_time,
    raw_amount,
    whole_count,
    whole_number,
)
from holderlake.sources.raw_rows import RawTable

_MAX_INT64: Final = 2**63 - 1
_WHOLE_NUMBER: Final = r"^[0-9]{1,77}$"
_NO_FLOAT: Final = (
    "a floating-point number is not exact; export the raw integer as text (cryo: --u256-types binary string)"
)
_EVM_CHAIN: Final = "eth"
_MISSING: Final = "a value is missing; add it or remove the row"

Quick = Callable[[pa.Array], pa.Array]
"""A function that parses an array of distinct texts at once.

It returns null for the texts that it cannot parse; the slower function ``parse`` then parses them one by one.
"""


def amounts(raw: RawTable, name: str, *, optional: bool = False) -> pa.Array:
    """Return the amounts in the column ``name`` as decimal text: raw integers of up to 256 bits.

    The column may have decimal text, hexadecimal text with 0x, integers or big-endian bytes.
    """
    _refuse_floats(raw, name)
    return _mapped(raw, name, lambda value: str(whole_number(value)), pa.string(), optional=optional, quick=_decimals)


def scaled_amounts(raw: RawTable, name: str, decimals: str) -> pa.Array:
    """Return the amounts in the column ``name``, which are in token units, as raw integers in decimal text.

    The column named ``decimals`` has the token's decimals for each row. If one of the numbers has more digits than a
    floating-point number has, no floating-point number wrote the column.
    """
    _refuse_floats(raw, name)
    places = counts(raw, decimals)
    texts = raw.table.column(name).combine_chunks().cast(pa.string())
    is_exact = any(map(has_more_digits_than_floats, texts.unique().drop_null().to_pylist()))
    pairs = pc.binary_join_element_wise(pc.fill_null(texts, ""), pc.fill_null(places.cast(pa.string()), "0"), "/")
    raw_pairs = raw.over(pa.table({name: pairs}))

    def parse(text: str) -> str:
        amount, _, scale = text.rpartition("/")
        if _is_blank(amount):
            raise ValueError(_MISSING)
        return str(raw_amount(amount, int(scale), is_exact=is_exact))

    return _mapped(raw_pairs, name, parse, pa.string())


def addresses(raw: RawTable, name: str, chains: pa.Array, *, optional: bool = False, token: bool = False) -> pa.Array:
    """Return the addresses in the column ``name``, in their chain's standard spelling (``contract.chains.addresses``).

    ``chains`` has the chain of each row. With ``token``, the value ``native`` is allowed too.
    """
    texts = pa.nulls(raw.table.num_rows, pa.string())
    for chain in chains.unique().drop_null().to_pylist():
        of_chain = pc.fill_null(pc.equal(chains, chain), False)
        spelt_as = _EVM_CHAIN if raw.is_evm and _may_be_evm(chain) else chain
        if family_of(spelt_as) == "evm":
            _count_wrong_checksums(raw, name)
        mapped = _mapped(
            raw,
            name,
            partial(_address, chain, spelt_as, token),
            pa.string(),
            optional=optional,
            missing=_COIN_IS_NATIVE if token else _MISSING_ADDRESS if name in _ENDS else _MISSING,
            quick=partial(parse_addresses, spelt_as),
            among=of_chain,
        )
        texts = pc.if_else(of_chain, mapped, texts)
    return texts


def _may_be_evm(chain: str) -> bool:
    return family_of(chain) is None and chain not in ADDRESSES_OF_64_DIGITS | BITCOINS


def _address(chain: str, spelt_as: str, is_token: bool, value: str | bytes) -> str:
    try:
        return (parse_token if is_token else parse_address)(spelt_as, value)
    except ValueError as error:
        words = str(error).replace(f"of chain {spelt_as} ", f"of chain {chain} ")
        is_coin = is_token and str(value).strip().lower() in _COINS
        raise ValueError(f"{words}; if it is the chain's own coin, write native" if is_coin else words) from error


def _count_wrong_checksums(raw: RawTable, name: str) -> None:
    column = raw.table.column(name)
    if pa.types.is_string(column.type):
        raw.problems.wrong_checksums += pc.sum(wrong_checksums(column.unique().drop_null())).as_py() or 0


_COINS: Final = frozenset({"0x", "-", "0", "0x0"})
"""Values that exports write for the chain's own coin."""
_ENDS: Final = frozenset({"from_address", "to_address"})
_COIN_IS_NATIVE: Final = (
    "a token is missing; write its address, or native for the chain's own coin (--set token_address=native if all rows "
    "are of it)"
)
_MISSING_ADDRESS: Final = (
    "an address is missing; add --empty-is-zero if an empty sender is a mint and an empty receiver a burn"
)


def hashes(raw: RawTable, name: str, chains: pa.Array, *, optional: bool = False) -> pa.Array:
    """Return the transaction hashes in the column ``name``, in their chain's standard spelling (``parse_hash``).

    ``chains`` has the chain of each row.
    """
    chain_names = chains.unique().drop_null().to_pylist()
    chain = chain_names[0] if len(chain_names) == 1 else ""
    family = family_of(chain)
    if raw.is_evm and _may_be_evm(chain):
        family = "evm"
    return _mapped(
        raw,
        name,
        lambda value: one_spelling(chain, parse_hash(family, value if isinstance(value, bytes) else str(value))),
        pa.string(),
        optional=optional,
        quick=lambda texts: parse_hashes(family, texts),
    )


def counts(raw: RawTable, name: str) -> pa.Array:
    """Return the whole numbers (at most 64 bits) in the column ``name``, for example block numbers or log indexes."""
    column = raw.table.column(name)
    is_plain = pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type) and not column.null_count
    if is_plain and (pc.min(column).as_py() or 0) >= 0:
        return column.combine_chunks().cast(pa.int64())
    return _mapped(raw, name, _int64, pa.int64(), quick=_small_numbers)


def decimals_by_token(
    chains: pa.ChunkedArray, tokens: pa.ChunkedArray, texts: pa.ChunkedArray
) -> dict[tuple[str, str], int]:
    """Return the decimals of each token (chain, address) of which the rows state one number.

    ``texts`` are the decimals of each row. Other values than whole numbers are ignored.
    """
    rows = pa.table([chains, tokens, texts], ["chain", "token", "decimals"])
    grouped = rows.group_by(["chain", "token"]).aggregate([("decimals", "distinct")])
    result = {}
    for chain, token, values in zip(*(column.to_pylist() for column in grouped.columns), strict=True):
        with suppress(ValueError):
            if len(values) == 1 and values[0] and whole_count(values[0]) <= MAX_DECIMALS:
                result[chain, token] = whole_count(values[0])
    return result


def choices(raw: RawTable, name: str, meanings: Mapping[str, str], *, blank: str | None = None) -> pa.Array:
    """Return the column ``name`` with each text replaced by its value in ``meanings``. Case and hyphens are ignored.

    ``blank`` is the value of rows without a text; None adds these rows to the problems.
    """

    def choice(value: object) -> str:
        result = meanings.get(str(value).strip().lower().replace("-", ""))
        if result is None:
            raise ValueError(f"{shown(value)} is not one of {', '.join(sorted(set(meanings.values())))}; correct it")
        return result

    column = _mapped(raw, name, choice, pa.string(), optional=blank is not None)
    if blank is None:
        return column
    return pc.if_else(pc.and_(pc.is_null(column), pc.invert(_has_problem(raw, name))), blank, column)


def _has_problem(raw: RawTable, name: str) -> pa.Array:
    reasons = raw.problems.reasons.get(name)
    return pa.repeat(False, raw.table.num_rows) if reasons is None else pc.is_valid(reasons)


def texts(raw: RawTable, name: str) -> pa.Array:
    """Return the texts in the column ``name`` unchanged. A missing text is added to the table's problems."""
    return _mapped(raw, name, str, pa.string())


def times(raw: RawTable, name: str) -> pa.Array:
    """Return the times in the column ``name`` as unix seconds. It may have unix times, timestamps or ISO text (UTC if
    it has no zone).

    The size of a unix time shows whether its unit is seconds, milliseconds, microseconds or nanoseconds. Fractions of a
    second are dropped.
    """
    column = raw.table.column(name)
    if pa.types.is_timestamp(column.type):
        # to seconds first: Python's datetime can't hold the nanoseconds of a Parquet timestamp
        instants = column.cast(pa.timestamp("s", column.type.tz), safe=False)
        column = instants.cast(pa.int64())
        if not column.null_count and _are_seconds(column):
            return column.combine_chunks()
        raw = raw.over(pa.table({name: instants.cast(pa.timestamp("s")).cast(pa.string())}))
    elif pa.types.is_int64(column.type) and not column.null_count and _are_seconds(column):
        return column.combine_chunks()
    return _mapped(raw, name, parse_time, pa.int64(), missing=NO_TIME, quick=_unix_seconds)


CHAIN_COLUMNS: Final = ("chain", "chain_id", "chainId", "blockchain")
NO_CHAIN: Final = "the file has no column with the chain; set it, for example --chain eth"


def chains(raw: RawTable, chain: str | None) -> pa.Array:
    """Return the chain of each row, from the file's column or from the argument ``chain``.

    The column is ``chain``, ``chain_id``, ``chainId`` or ``blockchain``. If the file has a column and ``chain`` is
    given, they must agree.
    """
    rows = raw.table.num_rows
    name = raw.first_of(*CHAIN_COLUMNS)
    if name is None:
        if chain is None:
            raise raw.bad(NO_CHAIN)
        return pa.repeat(pa.scalar(chain, pa.string()), rows)
    return _mapped(raw, name, lambda value: _chain(value, name, chain), pa.string())


def first_row(mask: pa.Array) -> int | None:
    """Return the position of the first row for which the mask is true, or None."""
    row = pc.index(mask, pa.scalar(True)).as_py()
    return None if row < 0 else int(row)


def _decimals(texts: pa.Array) -> pa.Array:
    """Return whole numbers as texts without their leading zeros, and null for any other text.

    A number has at most 77 digits and is therefore below 2^256.
    """
    plain = pc.match_substring_regex(texts, _WHOLE_NUMBER)
    digits = pc.utf8_ltrim(texts, "0")
    return pc.if_else(plain, pc.if_else(pc.equal(digits, ""), "0", digits), pa.scalar(None, pa.string()))


def _small_numbers(texts: pa.Array) -> pa.Array:
    """Return integers from texts with few enough digits for 64 bits, null for other texts."""
    return _integers_where(pc.match_substring_regex(texts, "^[0-9]{1,18}$"), texts)


def _unix_seconds(texts: pa.Array) -> pa.Array:
    """Return integers from texts whose digits are unix seconds from 2009 to 2100, null for other texts."""
    seconds = _integers_where(pc.match_substring_regex(texts, "^[1-9][0-9]{9}$"), texts)
    is_time = pc.and_(pc.greater_equal(seconds, FIRST_SECOND), pc.less(seconds, LAST_SECOND))
    return pc.if_else(is_time, seconds, pa.scalar(None, pa.int64()))


def _integers_where(plain: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(plain, texts, pa.scalar(None, pa.string())).cast(pa.int64())


def _are_seconds(column: pa.ChunkedArray) -> bool:
    limits = pc.min_max(column).as_py()
    return limits["min"] is not None and limits["min"] >= FIRST_SECOND and limits["max"] < LAST_SECOND


def _int64(value: object) -> int:
    number = whole_count(value)
    if number > _MAX_INT64:
        raise ValueError(f"{shown(value)} does not fit into 64 bits; check that this is the right column")
    return number


def _chain(value: object, name: str, chain: str | None) -> str:
    text = str(value).strip()
    number = re.fullmatch(r"0[xX][0-9a-fA-F]+|[0-9]+", text)
    chain_id = CHAIN_BY_EVM_ID.get(whole_number(text)) or chain if number else chain_named(text)
    if chain_id is None:
        raise ValueError(f"chain id {value} is unknown; set the name of the chain (--chain NAME)")
    if not is_chain_id(chain_id):
        raise ValueError(f"{shown(value)} is not a chain id; use {CHAIN_ID_FORM}")
    if chain is not None and chain_id != chain:
        raise ValueError(f"the row is of chain {chain_id}, but --chain is {chain}; remove --chain, or remove the row")
    return chain_id


def _refuse_floats(raw: RawTable, name: str) -> None:
    if pa.types.is_floating(raw.table.column(name).type):
        raise raw.bad(_NO_FLOAT, column=name)


def _mapped(
    raw: RawTable,
    name: str,
    parse: Callable[[Any], Hashable],
    dtype: pa.DataType,
    *,
    missing: str = _MISSING,
    optional: bool = False,
    quick: Quick | None = None,
    among: pa.Array | None = None,
) -> pa.Array:
    """Parse each distinct value of the column once, by ``quick`` if possible, else by ``parse``. Return the column.

    If ``parse`` raises ``ValueError``, the row becomes null, and the error is added to the problems. A null or blank is
    added to the problems with the reason ``missing``; it is no problem if the column is ``optional``. ``among`` is a
    mask: problems of rows that are not in it are ignored.
    """
    column = _plain_type(raw, name)
    encoded = column.dictionary_encode()
    distinct = encoded.dictionary
    quick_result: pa.Array | None = None
    if quick is not None and pa.types.is_string(distinct.type):
        quick_result = quick(distinct)
    listed = distinct.to_pylist() if quick_result is None else None
    parsed: list[Hashable | None] = [None] * len(distinct)
    reasons: list[str | None] = [None] * len(distinct)
    positions = (
        range(len(distinct)) if quick_result is None else pc.indices_nonzero(pc.is_null(quick_result)).to_pylist()
    )
    for position in positions:
        value = listed[position] if listed is not None else distinct[position].as_py()
        try:
            if not _is_blank(value):
                parsed[position] = parse(value)
            elif not optional:
                reasons[position] = missing
        except ValueError as error:
            reasons[position] = str(error)
    result = pa.array(parsed, dtype)
    if quick_result is not None:
        result = pc.coalesce(quick_result, result)
    if any(reasons) or (column.null_count and not optional):
        wrong = pa.array(reasons, pa.string()).take(encoded.indices)
        if not optional:
            wrong = pc.if_else(pc.is_null(column), missing, wrong)
        if among is not None:
            wrong = pc.if_else(among, wrong, pa.scalar(None, pa.string()))
        if wrong.null_count < len(wrong):
            raw.problems.add(name, wrong)
    return result.take(encoded.indices)


def _plain_type(raw: RawTable, name: str) -> pa.Array:
    """Return the column as one array of plain values, without dictionary encoding or chunks."""
    column = raw.table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_nested(column.type):
        raise raw.bad(f"a column of type {column.type} cannot be read; write one plain value in each row", column=name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type) or pa.types.is_null(column.type):
        return column.cast(pa.string())
    return column


def _is_blank(value: object) -> bool:
    # of bytes only the empty value is blank, because a byte that is a space in text is a number here
    if isinstance(value, float):
        return math.isnan(value)
    return value == b"" or (isinstance(value, str) and value.strip().strip("\"'").lower() in NO_VALUE)
