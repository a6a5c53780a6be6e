"""JSON with exact numbers: a number that a float would round is a ``Decimal``, when read and when written.

msgspec reads and writes the text, because pydantic's own JSON parser converts to double. pydantic checks the types.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, Final

import msgspec
from pydantic import TypeAdapter, ValidationError

_MOST_DIGITS: Final = 5_000


def _decimal(text: str) -> Decimal:
    """Return the number in a JSON text. Raises ``ArithmeticError`` if its exponent is too large."""
    number = Decimal(text)
    if abs(number.adjusted()) > _MOST_DIGITS:
        raise ArithmeticError(f"{text[:40]} is a number of more than {_MOST_DIGITS:,} digits")
    return number


_DECODER = msgspec.json.Decoder(float_hook=_decimal)
_ENCODER = msgspec.json.Encoder(decimal_format="number", order=None)
_EXACT = Context(prec=400)
_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


class MalformedAnswer(ValueError):
    """An answer that is not JSON, or does not match its model; the message names the field.

    ``answer`` is the position (from 0) of the answer among several that were decoded together.
    """

    answer: int = 0


def decode(raw: bytes, shape: Any) -> Any:
    """Decode an answer into ``shape`` (a model or a list of models).

    Raises ``MalformedAnswer`` for text that is cut off or not JSON (HTML, ``NaN``), and for a field of a wrong type.
    """
    try:
        plain = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, ArithmeticError, RecursionError) as error:
        raise MalformedAnswer(f"not JSON ({error}); it begins {raw[:60]!r}") from error
    adapter = _ADAPTERS.get(shape)
    if adapter is None:
        adapter = _ADAPTERS[shape] = TypeAdapter(shape)
    try:
        return adapter.validate_python(plain)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the answer"
        raise MalformedAnswer(f"{where}: {first['msg']} ({error.error_count()} faults in all)") from error


def encode(plain: Any) -> bytes:
    """Encode plain data as JSON, with ``Decimal`` as an exact number."""
    return _ENCODER.encode(plain)


def json_number(value: Decimal) -> Decimal:
    """Return the value without exponent and with at least one decimal (``5.0``), as clients expect a ``number``."""
    text = format(_EXACT.normalize(value), "f") if value else "0"
    return Decimal(text if "." in text else f"{text}.0")
