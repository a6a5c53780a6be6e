"""From values as they stand in an answer to Arrow columns: numbers, amounts, dates, and what may not stand there twice.

All raise ``ValueError`` on what is not ordinary: whoever asked then takes the long way (``bulk``).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from contract.chains import normalise_address
from contract.models import Amount, Instant
from contract.tables import AMOUNT_TYPE, INSTANT_TYPE, amount_columns
from contract.times import to_unix

Integers = npt.NDArray[np.int64]

_BETWEEN: Final = b"\x1f"
"""A byte that stands nowhere in JSON."""
_DIGITS_BEFORE: Final = 19
_DIGITS_AFTER: Final = 18
_SIMPLE_AMOUNT: Final = rf"^-?[0-9]{{1,{_DIGITS_BEFORE}}}(\.[0-9]{{1,{_DIGITS_AFTER}}})?$"
"""Numbers that the decimal column holds for sure. Arrow's cast takes others too, and wraps around unnoticed."""
_SIMPLE_INSTANT: Final = r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"
_LAST_SECOND: Final = to_unix(datetime(9999, 12, 31, 23, 59, 59))

_amount: Final = TypeAdapter(Amount).validate_python
_instants: Final = TypeAdapter(list[Instant | None]).validate_python


def together(raws: Iterable[msgspec.Raw]) -> bytes:
    """Values as they stand in an answer, put together: at once this costs a fraction of what it does one by one."""
    return _BETWEEN.join(raws)


def apart(pieces: Sequence[bytes], count: int) -> pa.Array:
    """All values of what was put ``together``, as bytes. Raises ``ValueError`` where there are not ``count``."""
    if not count:
        return pa.array([], pa.binary())
    values = pc.split_pattern(pa.scalar(_BETWEEN.join(pieces), pa.binary()), _BETWEEN).values
    if len(values) != count:
        raise ValueError("a value holds a byte that JSON does not know")
    return values


def texts_of(raws: Sequence[msgspec.Raw]) -> pa.Array:
    """Values as they stand in an answer, as a column of texts."""
    return apart([together(raws)], len(raws)).cast(pa.string())


def written(addresses: list[str]) -> list[str]:
    """Addresses as the contract writes them. Most stand so in the answer, which one look at all of them tells."""
    text = "".join(addresses)
    if text == text.lower() and text.split() == [text]:
        return addresses
    return [*map(normalise_address, addresses)]


def number_of(text: bytes) -> float:
    """A JSON number. Raises ``ValueError`` where reading it as a decimal first might make a difference."""
    value = float(text)
    if value - value or not (value or text in (b"0", b"0.0")):
        raise ValueError(f"{text!r} is too large, too small or an unusual zero")
    return value


def measured(raw: msgspec.Raw) -> float | None:
    """As ``number_of``, or None for null."""
    text = bytes(raw)
    return None if text == b"null" else number_of(text)


def shares_of(raws: Iterable[msgspec.Raw]) -> list[float]:
    """JSON numbers from 0 to 1. Raises ``ValueError`` on any other."""
    shares = [number_of(bytes(raw)) for raw in raws]
    if shares and not (min(shares) >= 0 and max(shares) <= 1):
        raise ValueError("a share is not from 0 to 1")
    return shares


def amounts_of(name: str, texts: pa.Array) -> dict[str, pa.Array]:
    """``amount_columns`` of a column of JSON numbers, as text."""
    simple = _are_simple(texts)
    decimals = (pc.if_else(simple, texts, None) if simple.false_count else texts).cast(AMOUNT_TYPE)
    exact = pa.nulls(len(texts), pa.string())
    if not simple.false_count:
        return {name: decimals, f"{name}_exact": exact}
    odd = pc.invert(simple)
    columns = [amount_columns(name, _amount(Decimal(text))) for text in texts.filter(odd).to_pylist()]
    rounded = pa.array([each[name] for each in columns], AMOUNT_TYPE)
    written = pa.array([each[f"{name}_exact"] for each in columns], pa.string())
    return {
        name: pc.replace_with_mask(decimals, odd, rounded),
        f"{name}_exact": pc.replace_with_mask(exact, odd, written),
    }


def _are_simple(texts: pa.StringArray) -> pa.BooleanArray:
    """Which amounts are of the form that the decimal column holds for sure; as a rule all, which lengths tell."""
    characters = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if len(characters) and characters.min() >= ord("-") and characters.max() <= ord("9"):
        points = pc.find_substring(texts, ".").to_numpy()  # -1 without one: 18 digits pass here, the pattern lets 19
        lengths = pc.binary_length(texts).to_numpy()
        if points.max() <= _DIGITS_BEFORE and (lengths - points).max() <= 1 + _DIGITS_AFTER:
            return pa.repeat(True, len(texts))
    return pc.match_substring_regex(texts, _SIMPLE_AMOUNT)


def dates_of(seconds: pa.Array) -> pa.Array:
    """Instants of unix seconds. Raises ``ValueError`` on those that no calendar here has."""
    ends = pc.min_max(seconds).as_py()
    if len(seconds) and not (ends["min"] >= 0 and ends["max"] <= _LAST_SECOND):
        raise ValueError("a date before 1970 or after 9999")
    return seconds.cast(pa.timestamp("s")).cast(INSTANT_TYPE)


def date_times_of(texts: Sequence[str | None]) -> pa.Array:
    """Instants of ISO 8601 texts. Raises ``ValueError``."""
    array = pa.array(texts, pa.string())
    if pc.match_substring_regex(array, _SIMPLE_INSTANT).false_count:
        return pa.array(_instants(texts), INSTANT_TYPE)
    return array.cast(pa.timestamp("us", "UTC")).cast(INSTANT_TYPE)


def refuse_twice(keys: Sequence[Hashable]) -> None:
    """Raises ``ValueError`` where one stands there twice."""
    if len(set(keys)) < len(keys):
        raise ValueError("something stands in the answer twice")


def refuse_twice_coded(keys: Mapping[str, Integers]) -> None:
    """As ``refuse_twice``, of keys whose parts are small numbers."""
    whole: Integers | int = 0
    sizes = [int(part.max(initial=0)) + 1 for part in keys.values()]
    if math.prod(sizes) >= 2**63:
        refuse_twice([*zip(*(part.tolist() for part in keys.values()), strict=True)])
        return
    for size, part in zip(sizes, keys.values(), strict=True):
        whole = whole * size + part
    ordered = np.sort(whole)
    if (ordered[1:] == ordered[:-1]).any():
        raise ValueError("something stands in the answer twice")
