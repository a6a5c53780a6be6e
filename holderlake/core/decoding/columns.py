"""Convert values of an answer to Arrow columns: numbers, amounts, dates and addresses.

All functions raise ``ValueError`` for a value that a column cannot store; the lenient mode then decodes the answer
again. The JSON texts of a column are joined, and Arrow splits them, which is faster than reading them one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

from holderlake.core.contract.chains import normalise_address
from holderlake.core.contract.tables import AMOUNT_TYPE, INSTANT_TYPE, amount_columns
from holderlake.core.contract.times import as_utc

FIRST_SECOND: Final = -62_135_596_800
"""Unix seconds of the first instant of year 1."""
LAST_SECOND: Final = 253_402_300_799
"""Unix seconds of the last second of year 9999."""
LONGEST_AMOUNT: Final = 400
"""Maximum digits of an amount. A number such as 1e999999999, written without exponent, would fill the memory."""

_SEPARATOR: Final = b"\x1f"
"""Separator of joined texts: a byte that valid JSON does not contain."""
_DIGITS_BEFORE: Final = 19
_DIGITS_AFTER: Final = 18
_SIMPLE_AMOUNT: Final = rf"^-?[0-9]{{1,{_DIGITS_BEFORE}}}(\.[0-9]{{1,{_DIGITS_AFTER}}})?$"
"""Pattern of numbers that certainly fit the decimal column. For larger ones Arrow's cast overflows without an error."""
_SIMPLE_INSTANT: Final = r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"


def joined_texts(raws: Iterable[Raw]) -> bytes:
    """Join raw JSON texts with ``_SEPARATOR``. ``split`` is the inverse."""
    return _SEPARATOR.join(raws)


def split(pieces: Sequence[bytes], count: int) -> pa.Array:
    """Split ``pieces``, texts that ``joined_texts`` made, into a binary Arrow array of ``count`` JSON texts."""
    if not count:
        return pa.array([], pa.binary())
    values = pc.split_pattern(pa.scalar(_SEPARATOR.join(pieces), pa.binary()), _SEPARATOR).values
    if len(values) != count:
        raise ValueError(f"a value contains a byte that JSON does not allow: {_SEPARATOR!r}")
    return values


def texts_of(raws: Sequence[Raw]) -> pa.Array:
    """Return raw JSON texts as an Arrow array of strings."""
    return split([joined_texts(raws)], len(raws)).cast(pa.string())


def normalised(addresses: list[str]) -> list[str]:
    """Return addresses in the contract's form: hexadecimal (EVM) in lower case, all others unchanged."""
    text = "".join(addresses)
    if text != text.lower() or text.split() != [text]:
        addresses = [*map(normalise_address, addresses)]
    if "" in addresses:
        raise ValueError(f"address {addresses.index('') + 1:,} of the answer's {len(addresses):,} addresses is empty")
    return addresses


def figure_of(raw: Raw) -> float | None:
    """Return the number in a raw JSON text, a finite 64-bit float; None for null."""
    text = bytes(raw)
    if text == b"null":
        return None
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:40]!r} is not a finite number")
    return number


def amounts_of(name: str, texts: pa.Array) -> dict[str, pa.Array]:
    """Return the columns ``name`` (decimal) and ``name_exact`` (text or null) of an Arrow array of JSON numbers."""
    simple = _are_simple(texts)
    decimals = (pc.if_else(simple, texts, None) if simple.false_count else texts).cast(AMOUNT_TYPE)
    exact = pa.nulls(len(texts), pa.string())
    if not simple.false_count:
        return {name: decimals, f"{name}_exact": exact}
    mask = pc.invert(simple)
    columns = [amount_columns(name, _amount(text)) for text in texts.filter(mask).to_pylist()]
    rounded = pa.array([row[name] for row in columns], AMOUNT_TYPE)
    spelled = pa.array([row[f"{name}_exact"] for row in columns], pa.string())
    return {
        name: pc.replace_with_mask(decimals, mask, rounded),
        f"{name}_exact": pc.replace_with_mask(exact, mask, spelled),
    }


def _amount(text: str) -> Decimal | None:
    if text == "null":
        return None
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text[:40]} is not a number") from error
    if not is_amount(number):
        raise ValueError(f"{text[:40]} is not a number of at most {LONGEST_AMOUNT} digits")
    return number


def is_amount(number: Decimal) -> bool:
    """Return whether an amount is finite and has at most ``LONGEST_AMOUNT`` digits, written without exponent."""
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):  # NaN or infinity
        return False
    return not number or max(number.adjusted() + 1, 1) + max(-exponent, 0) <= LONGEST_AMOUNT


def _are_simple(texts: pa.StringArray) -> pa.BooleanArray:
    """Return an Arrow array of booleans: True for an amount that certainly fits the decimal column.

    It first compares lengths, which is fast and mostly enough.
    """
    characters = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if len(characters) and characters.min() >= ord("-") and characters.max() <= ord("9"):
        points = pc.find_substring(texts, ".").to_numpy()  # -1 without a point: 18 digits pass here, 19 the pattern
        lengths = pc.binary_length(texts).to_numpy()
        if points.max() <= _DIGITS_BEFORE and (lengths - points).max() <= 1 + _DIGITS_AFTER:
            return pa.repeat(True, len(texts))
    return pc.match_substring_regex(texts, _SIMPLE_AMOUNT)


def integers_of(values: Sequence[int | None]) -> pa.Array:
    """Return an Arrow array of 64-bit integers and nulls."""
    try:
        return pa.array(np.fromiter(values, np.int64, len(values)))
    except TypeError:
        return pa.array(values, pa.int64())


def dates_of(seconds: pa.Array) -> pa.Array:
    """Return unix seconds as an Arrow array of instants of the years 1 to 9999."""
    ends = pc.min_max(seconds).as_py()
    if ends["min"] is not None and not FIRST_SECOND <= ends["min"] <= ends["max"] <= LAST_SECOND:
        raise ValueError(f"unix seconds {ends['min']} to {ends['max']} are not all within the years 1 to 9999")
    return seconds.cast(pa.timestamp("s")).cast(INSTANT_TYPE)


def date_times_of(texts: Sequence[str | None]) -> pa.Array:
    """Return ISO 8601 texts as an Arrow array of instants (UTC)."""
    array = pa.array(texts, pa.string())
    if pc.match_substring_regex(array, _SIMPLE_INSTANT).false_count:
        return pa.array([None if text is None else instant_of(text) for text in texts], INSTANT_TYPE)
    return array.cast(pa.timestamp("us", "UTC")).cast(INSTANT_TYPE)


def instant_of(text: str) -> datetime:
    """Return the instant (UTC, without zone) of an ISO 8601 text. A text without a time zone is in UTC."""
    try:
        instant = datetime.fromisoformat(text.strip())
        return as_utc(instant)
    except OverflowError as error:
        raise ValueError(f"the date-time {text!r} is outside the years 1 to 9999") from error
