"""Columns of a raw file turned into exact, checked ones: amounts, addresses, hashes, whole numbers, times, chains.

Each function takes the raw table and a column's name and raises ``BadSource`` at the first row that can't be used.
Which columns a layout has belongs to ``layouts``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from contract.chains import CHAIN_BY_EVM_ID, normalise_address
from contract.times import to_unix
from engine.sources.raw import RawTable

MAX_AMOUNT: Final = 2**256 - 1
_MAX_DIGITS: Final = len(str(MAX_AMOUNT)) + 1
_MAX_INT64: Final = 2**63 - 1
_YEAR_9999: Final = 253_402_300_799

_DECIMAL: Final = re.compile(r"[0-9]+")
_HEX: Final = re.compile(r"0[xX][0-9a-fA-F]+")
_EVM_ADDRESS: Final = re.compile(r"0x[0-9a-f]{40}")
_NO_FLOAT: Final = "a floating-point number is not exact; export the raw integer as text"
_NO_TIME: Final = "a transfer needs a time; leave such rows out or fill their block's time in"


def amounts(raw: RawTable, name: str, *, optional: bool = False) -> pa.Array:
    """Raw integers of up to 256 bits as decimal text. Takes decimal and 0x text, integers and big-endian bytes."""
    _refuse_floats(raw, name)
    return _mapped(raw, name, lambda value: str(whole_number(value)), pa.string(), optional=optional)


def addresses(raw: RawTable, name: str, *, evm: bool, optional: bool = False) -> pa.Array:
    """Addresses as the contract writes them; ``evm`` demands 20 bytes, as text or binary."""
    return _mapped(raw, name, _evm_address if evm else _any_address, pa.string(), optional=optional)


def hashes(raw: RawTable, name: str, *, optional: bool = False) -> pa.Array:
    """Transaction hashes, hexadecimal in lower case."""
    return _mapped(raw, name, _any_address, pa.string(), optional=optional)


def counts(raw: RawTable, name: str) -> pa.Array:
    """Whole numbers that fit 64 bits: block numbers, log indexes."""
    _refuse_floats(raw, name)
    return _mapped(raw, name, _int64, pa.int64())


def choices(raw: RawTable, name: str, known: dict[str, str]) -> pa.Array:
    """Text that is one of the known ones, ignoring case and hyphens, as the value that stands for it."""

    def chosen(value: object) -> str:
        found = known.get(str(value).strip().lower().replace("-", ""))
        if found is None:
            raise ValueError(f"{value!r} is not one of {', '.join(sorted(set(known.values())))}")
        return found

    return _mapped(raw, name, chosen, pa.string())


def texts(raw: RawTable, name: str) -> pa.Array:
    """Text as it stands, never missing."""
    return _mapped(raw, name, str, pa.string())


def times(raw: RawTable, name: str) -> pa.Array:
    """Unix seconds, of unix seconds, timestamps or ISO text (no zone means UTC). Fractions of a second are cut off."""
    column = raw.table.column(name)
    if pa.types.is_timestamp(column.type):
        # to seconds first: Python's datetime can't hold the nanoseconds of a Parquet timestamp
        seconds = column.cast(pa.timestamp("s", column.type.tz), safe=False).cast(pa.int64())
        raw = RawTable(raw.path, pa.table({name: seconds}))
    else:
        _refuse_floats(raw, name)
    return _mapped(raw, name, _time, pa.int64(), missing=_NO_TIME)


def chains(raw: RawTable, chain: str | None) -> pa.Array:
    """The chain of each row, of a ``chain`` or ``chain_id`` column, else the argument. They must not contradict."""
    rows = raw.table.num_rows
    name = raw.first_of("chain", "chain_id")
    if name is None:
        if chain is None:
            raise raw.bad("the file does not say which chain it is of; name one (chain='eth')")
        return pa.repeat(pa.scalar(chain, pa.string()), rows)
    return _mapped(raw, name, lambda value: _chain(value, name, chain), pa.string())


def first_row(mask: pa.Array) -> int | None:
    """The first row where the mask holds, else None."""
    row = pc.index(mask, pa.scalar(True)).as_py()
    return None if row < 0 else int(row)


def whole_number(value: object) -> int:
    """An exact integer from 0 to 2^256 - 1. Raises ``ValueError`` saying what is wrong."""
    number = _integer(value)
    if number < 0:
        raise ValueError(f"{_shown(value)} is negative; a transfer moves zero or more, so swap sender and receiver")
    if number > MAX_AMOUNT:
        raise ValueError(f"{_shown(value)} is over 2^256 - 1, the most that a token can move; check the export")
    return number


def _integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, bytes):
        return int.from_bytes(value, "big")
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    text = str(value).strip()
    if _HEX.fullmatch(text):
        return int(text, 16)
    digits = text.removeprefix("-")
    if _DECIMAL.fullmatch(digits):
        # int() refuses thousands of digits; whatever has more than 256 bits can have is too large alike
        number = int(digits.lstrip("0")[:_MAX_DIGITS] or "0")
        return -number if text.startswith("-") else number
    raise ValueError(f"{_shown(value)} is not a whole number; give raw integers, decimal or 0x")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 90 else f"{text[:87]}..."


def _int64(value: object) -> int:
    number = whole_number(value)
    if number > _MAX_INT64:
        raise ValueError(f"{_shown(value)} does not fit 64 bits; check the export")
    return number


def _text_of(value: object) -> str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value).strip()


def _any_address(value: object) -> str:
    return normalise_address(_text_of(value))


def _evm_address(value: object) -> str:
    address = _any_address(value)
    if not _EVM_ADDRESS.fullmatch(address):
        raise ValueError(f"{_shown(value)} is not an address of 20 bytes; check the export")
    return address


def _time(value: object) -> int:
    seconds = _int64(value) if isinstance(value, int) or _DECIMAL.fullmatch(str(value).strip()) else _iso(str(value))
    if seconds <= 0:
        raise ValueError(f"{_shown(value)} is no time: {_NO_TIME}")
    if seconds > _YEAR_9999:
        raise ValueError(f"{_shown(value)} is beyond the year 9999; give unix seconds, not milliseconds")
    return seconds


def _iso(text: str) -> int:
    try:
        instant = datetime.fromisoformat(text.strip().removesuffix(" UTC"))
    except ValueError:
        raise ValueError(f"{_shown(text)} is not a time; give unix seconds or 2026-11-20 12:00:00 (UTC)") from None
    return to_unix(instant if instant.tzinfo else instant.replace(tzinfo=UTC))


def _chain(value: object, name: str, chain: str | None) -> str:
    if name == "chain":
        found: str | None = str(value).strip()
    else:
        found = CHAIN_BY_EVM_ID.get(whole_number(value)) or chain
    if found is None:
        raise ValueError(f"chain id {value} is not one we know a name of; name the chain yourself (chain='...')")
    if chain is not None and found != chain:
        raise ValueError(f"the row is of chain {found}, but chain {chain} was asked for; leave that out")
    return found


def _refuse_floats(raw: RawTable, name: str) -> None:
    if pa.types.is_floating(raw.table.column(name).type):
        raise raw.bad(_NO_FLOAT, column=name)


def _mapped(
    raw: RawTable,
    name: str,
    parse: Callable[[Any], Hashable],
    dtype: pa.DataType,
    *,
    missing: str = "a value is missing; fill it in or leave the row out",
    optional: bool = False,
) -> pa.Array:
    """The column with each distinct value parsed once. ``parse`` raises ``ValueError`` for what can't be used.

    Nulls and blanks stay null where the column is optional, and are an error where it is not.
    """
    column = raw.table.column(name).combine_chunks()
    if pa.types.is_nested(column.type):
        raise raw.bad(f"a column of {column.type} can't be read; give one plain value a row", column=name)
    if column.null_count and not optional:
        raise raw.bad(missing, column=name, row=first_row(pc.is_null(column)))
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), dtype)
    encoded = column.dictionary_encode()
    parsed: list[Hashable | None] = []
    for position, value in enumerate(encoded.dictionary.to_pylist()):
        try:
            if not _is_blank(value):
                parsed.append(parse(value))
            elif optional:
                parsed.append(None)
            else:
                raise ValueError(missing)
        except ValueError as error:
            row = first_row(pc.equal(encoded.indices, position))
            raise raw.bad(str(error), column=name, row=row) from error
    return pa.array(parsed, dtype).take(encoded.indices)


def _is_blank(value: object) -> bool:
    # bytes are tested for emptiness only: a byte that reads as a space in text is a number here
    return value == b"" or (isinstance(value, str) and not value.strip())
