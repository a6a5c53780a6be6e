"""JSON with exact numbers: a number with a fraction or an exponent is read and written as a ``Decimal``.

msgspec reads and writes the JSON, because pydantic's own parser converts numbers to floats. pydantic then checks the
types. ``encode`` is the only encoder of values that data, callers or providers choose: it writes valid JSON for each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_MOST_DIGITS: Final = 5_000


def _decimal(text: str) -> Decimal:
    """Return a JSON number. Raises ``ArithmeticError`` if it has over 5,000 digits when written without exponent."""
    number = Decimal(text)
    if abs(number.adjusted()) > _MOST_DIGITS:
        raise ArithmeticError(f"the number {text[:40]} has more than {_MOST_DIGITS:,} digits")
    return number


_DECODER = msgspec.json.Decoder(float_hook=_decimal)
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MOST_BITS: Final = 13_000
"""An integer of more bits is written in hexadecimal: Python refuses to write it in decimal."""
_EXACT = Context(prec=400)
_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


class MalformedAnswer(ValueError):
    """An answer that is not JSON, or does not match its model. The message names the field.

    If a list of answers was decoded in one call, ``answer`` is the position (from 0) of the malformed one in this list.
    """

    answer: int = 0


def decode(raw: bytes, shape: Any) -> Any:
    """Decode the JSON bytes of an answer as ``shape``, a pydantic model or a list of models.

    Raises ``MalformedAnswer`` for text that is cut off or not JSON (HTML, ``NaN``), and for a field of a wrong type.
    """
    try:
        plain = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, ArithmeticError, RecursionError) as error:
        raise MalformedAnswer(
            f"the answer is not JSON ({error}), it begins with {raw[:60]!r}; if another server sent it, check "
            "the provider's address"
        ) from error
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - 'holderlake --help' reads no answer

    adapter = _ADAPTERS.get(shape)
    if adapter is None:
        adapter = _ADAPTERS[shape] = TypeAdapter(shape)
    try:
        return adapter.validate_python(plain)
    except ValidationError as error:
        first_error = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first_error["loc"]) or "its top level"
        message = (
            f"the answer is malformed at {path}: {first_error['msg']} (errors in this answer: {error.error_count()})"
        )
        raise MalformedAnswer(message) from error


def encode(value: Any, odd_numbers: Literal["null", "text"] = "null") -> bytes:
    """Encode any value as JSON in UTF-8.

    A ``Decimal`` is an exact number, and NaN and infinity are null; with ``text`` all three are text. Half of a
    surrogate pair becomes U+FFFD, bytes become base64, and an object of an unknown type becomes its text.
    """
    if odd_numbers == "null":
        try:
            raw = _ENCODER.encode(value)
        except (TypeError, ValueError):
            pass
        else:
            if b"NaN" not in raw and b"Infinity" not in raw:  # of a Decimal, or within a text
                return raw
    return _ENCODER.encode(_valid(value, odd_numbers == "text"))


def _valid(value: Any, as_text: bool) -> Any:  # noqa: PLR0911 - one for each kind of value
    match value:
        case None | bool() | bytes() | bytearray() | memoryview():
            return value
        case str():
            return _SURROGATE.sub("\ufffd", value)
        case int():
            return int(value) if value.bit_length() < _MOST_BITS else hex(value)
        case float():
            return float(value) if math.isfinite(value) else str(float(value)) if as_text else None
        case Decimal():
            return str(value) if as_text else value if value.is_finite() else None
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            return {_SURROGATE.sub("\ufffd", str(name)): _valid(item, as_text) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_valid(item, as_text) for item in value]
    return _SURROGATE.sub("\ufffd", str(value))


def json_number(value: Decimal) -> Decimal:
    """Return an amount without exponent and with at least one decimal (``5.0``), for an answer's JSON."""
    text = format(_EXACT.normalize(value), "f") if value else "0"
    return Decimal(text if "." in text else f"{text}.0")
