"""JSON in and out with exact numbers: what a float would round stays a ``Decimal`` on both sides.

msgspec reads and writes the text (pydantic's own JSON parser goes through a double); pydantic checks the shape.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, Final

import msgspec
from pydantic import TypeAdapter, ValidationError

_MOST_DIGITS: Final = 5_000


def _decimal(text: str) -> Decimal:
    """Raises ``ArithmeticError`` on an exponent that would keep whoever makes an integer of it busy for hours."""
    number = Decimal(text)
    if abs(number.adjusted()) > _MOST_DIGITS:
        raise ArithmeticError(f"{text[:40]} is a number of more than {_MOST_DIGITS:,} digits")
    return number


_DECODER = msgspec.json.Decoder(float_hook=_decimal)
_ENCODER = msgspec.json.Encoder(decimal_format="number", order=None)
_EXACT = Context(prec=400)
_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


class MalformedAnswer(ValueError):
    """The bytes are not JSON, or JSON of another shape than the contract's. The message says where.

    ``answer`` is the position of the answer among those that were decoded together.
    """

    answer: int = 0


def decode(raw: bytes, shape: Any) -> Any:
    """Reads an answer's bytes into ``shape`` (a model or a list of models).

    Raises ``MalformedAnswer`` on truncated or non-JSON text (HTML, ``NaN``) and on any field of a wrong type.
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
    """JSON bytes of plain data, with ``Decimal`` written as an exact number."""
    return _ENCODER.encode(plain)


def json_number(value: Decimal) -> Decimal:
    """The value in plain notation with at least one decimal, as clients expect a ``number`` to look (``5.0``)."""
    text = format(_EXACT.normalize(value), "f") if value else "0"
    return Decimal(text if "." in text else f"{text}.0")
