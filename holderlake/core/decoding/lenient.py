"""The lenient mode of the decoder: read an answer with invalid values into the same structs, value by value.

Each value is converted to the type of its field without loss (``"1.0"`` is the integer 1). A value that cannot be
converted becomes null. An element of a list that lacks a field by which it is identified is left out. Both cases are
reported with their JSON path. An answer is rejected only if it is not JSON, or is an answer of another endpoint.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import Raw
from pydantic import BaseModel

from holderlake.core.contract import models
from holderlake.core.contract.chains import normalise_address
from holderlake.core.contract.exact_json import MalformedAnswer
from holderlake.core.contract.fields import AnswerField, fields_of
from holderlake.core.contract.times import from_unix
from holderlake.core.decoding.columns import FIRST_SECOND, LAST_SECOND, LONGEST_AMOUNT, instant_of, is_amount
from holderlake.core.decoding.structs import NULL, RAW_KINDS, UnknownTransfer, empty, stored_fields, struct_of

UNREADABLE_ROW: Final = "unreadable_row"
"""Code of ``Unreadable`` for an element of a list that was left out."""
UNREADABLE_VALUE: Final = "unreadable_value"
"""Code of ``Unreadable`` for a value that became null, or a text in which invalid characters were replaced."""

_MOST_NOTES: Final = 100
_LONGEST_VALUE: Final = 60
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS: Final = {"true": True, "false": False}
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True)
class Unreadable:
    """A row or value of an answer that could not be read, with its JSON ``path`` and the ``reason``.

    ``code`` is ``UNREADABLE_ROW`` or ``UNREADABLE_VALUE``. ``answer`` is the position (from 0) of the answer in the
    list that was decoded. ``subject`` is the address in the row, None if it has none.
    """

    code: str
    path: str
    reason: str
    answer: int = 0
    subject: str | None = None


class _Unfit(ValueError):
    """A value cannot be converted to the type of its field: ``expected`` describes that type."""

    def __init__(self, expected: str, value: Any, addition: str = "") -> None:
        super().__init__(f"expected {expected}, not {_described(value)}{addition}")


class _NoRow(Exception):
    """An element lacks a field that identifies it, so it is left out. The arguments are its path and the reason."""


def read(raw: bytes, shape: Any, chain: str | None = None) -> tuple[Any, list[Unreadable]]:
    """Decode JSON bytes as ``shape``, a model or a list of models.

    Returns structs, and a list of the rows and values that cannot be read. ``chain`` is the chain of native tokens
    in older answers, which do not name it. Raises ``MalformedAnswer`` if the bytes are not JSON, or no part of them has
    the shape.
    """
    try:
        reading = _Reading(chain)
        return reading.answer(_parsed(raw), shape), reading.all_notes()
    except RecursionError as error:
        raise MalformedAnswer(f"the answer is nested too deeply to be read; it begins {raw[:60]!r}") from error


def _parsed(raw: bytes) -> Any:
    """Parse JSON bytes into Python data, with numbers as ``Decimal``. Of repeated keys the last one is kept.

    Bytes that are not UTF-8 become lone surrogates, which JSON escapes may contain too; ``_cleaned`` replaces them.
    """
    text = raw.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    try:
        return json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_number, strict=False)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise MalformedAnswer(f"the answer is not JSON ({error.msg}: {position}); it begins {raw[:60]!r}") from error


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of more than 18 digits
        return Decimal("NaN")


def is_older_map(raw: bytes) -> bool:
    """Return whether an answer's bytes are a map of the older shape, which never had all figures of today's maps."""
    return b'"decentralization_score"' in raw and b'"metrics"' not in raw


def _current_map(plain: dict[str, Any]) -> dict[str, Any]:
    """Return a parsed map in the current shape; unchanged if it has that shape, or is an answer of another endpoint."""
    metadata = plain.get("metadata")
    if "metrics" in plain or not isinstance(metadata, dict):
        return plain
    if not {"decentralization_score", "relationships", "clusters", "nodes"} & plain.keys():
        return plain
    if not isinstance(metadata.get("identified_supply"), dict):
        plain = plain | {"metadata": {name: item for name, item in metadata.items() if name != "identified_supply"}}
    return models.current_map_shape(plain)


class _Reading:
    """Reader of one answer: it makes structs, and collects unreadable rows and values in ``notes``."""

    def __init__(self, chain: str | None) -> None:
        self.notes: list[Unreadable] = []
        self._omitted = 0
        self._chain = chain

    def answer(self, plain: Any, shape: Any) -> Any:
        """Return parsed JSON as structs of ``shape``."""
        is_list = get_origin(shape) is list
        if not isinstance(plain, list if is_list else dict):
            raise MalformedAnswer(f"$: {_Unfit('a list' if is_list else 'an object', plain)}")
        if isinstance(plain, list):
            rows = self.list_of(get_args(shape)[0], plain, "$")
            if plain and not rows:
                note = self.notes[0]
                raise MalformedAnswer(f"none of {len(plain):,} rows can be read; {note.path}: {note.reason}")
            return rows
        plain = _current_map(plain) if shape is models.Map else plain
        if not any(isinstance(plain.get(field.name), dict | list) for field in fields_of(shape)):
            raise MalformedAnswer(f"$: expected a {shape.__name__.lower()}, not {_described(plain)}")
        return self.struct(shape, plain, "$")

    def all_notes(self) -> list[Unreadable]:
        """Return the first hundred notes. If there are more, add a note with the number of omitted notes."""
        omitted = f"{self._omitted:,} more of this answer's rows or values cannot be read"
        return self.notes + ([Unreadable(UNREADABLE_ROW, "$", omitted)] if self._omitted else [])

    def note(self, code: str, path: str, reason: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(Unreadable(code, path, reason))
        else:
            self._omitted += 1

    def list_of(self, model: type[BaseModel] | None, items: list[Any], path: str) -> list[Any]:
        """Return the elements of the list ``items`` as structs of a model, or as addresses if it is None.

        Each element that cannot be read becomes a note.
        """
        elements = []
        for place, item in enumerate(items):
            note_count = len(self.notes)
            try:
                elements.append(self._item(model, item, f"{path}[{place}]"))
            except _NoRow as error:
                self.note(UNREADABLE_ROW, *error.args)
            if path == "$":
                self.notes[note_count:] = [replace(note, subject=_subject(item)) for note in self.notes[note_count:]]
        return elements

    def _item(self, model: type[BaseModel] | None, item: Any, path: str) -> Any:
        if model is None:
            return self.value("address", item, path, is_essential=True)
        if not isinstance(item, dict):
            raise _NoRow(path, str(_Unfit("an object", item)))
        if model is models.GroupedTransfer and item.get("rel_type") not in (None, models.GROUPED_TRANSFER):
            return self._unknown_transfer(item, path)
        return self.struct(model, item, path)

    def _unknown_transfer(self, item: Mapping[str, Any], path: str) -> UnknownTransfer:
        ends = {name: item.get(name) for name in ("from_address", "to_address")}
        transfer = self.struct(models.GroupedTransfer, ends, path)
        rel_type = self.value("address", item["rel_type"], f"{path}.rel_type", is_essential=True)
        data = _ENCODER.encode(_cleaned(item.get("data"))).decode()
        return UnknownTransfer(
            transfer.from_address, transfer.to_address, empty(models.GroupedTransferData), rel_type, data
        )

    def struct(self, model: type[BaseModel], plain: Mapping[str, Any], path: str) -> Any:
        """Return a JSON object as a struct. Raises ``_NoRow`` if an essential field of the object cannot be read."""
        values: dict[str, Any] = {}
        for field in stored_fields(model):
            given = [name for name in field.names if name in plain]
            if (given or field.is_essential) and field.kind != "constant":
                value = next((plain[name] for name in given if plain[name] is not None), None)
                values[field.name] = self._field(field, value, f"{path}.{field.name}")
        return struct_of(model)(**values)

    def _field(self, field: AnswerField, value: Any, path: str) -> Any:
        if field.kind == "list":
            if value is None:
                return None
            if isinstance(value, list):
                return self.list_of(field.model, value, path)
            self.note(UNREADABLE_VALUE, path, str(_Unfit("a list", value)))
            return None
        if field.kind == "object" and field.model is not None:
            return self._nested(field.model, value, path, field.is_essential)
        return self.value(field.kind, value, path, field.is_essential)

    def _nested(self, model: type[BaseModel], value: Any, path: str, is_essential: bool) -> Any:
        """Return a nested object as a struct; if it cannot be read, None, or an empty struct of an essential field."""
        if value is not None and not isinstance(value, dict):
            self.note(UNREADABLE_VALUE, path, str(_Unfit("an object", value)))
            value = None
        value = models.current_token_key(value) if model is models.TokenKey else value
        return self.struct(model, value or {}, path) if is_essential or value is not None else None

    def value(self, kind: str, value: Any, path: str, is_essential: bool = False) -> Any:
        """Return a value as its kind of field has it in a struct. For an unreadable value add a note, return null."""
        try:
            if kind == "scores":
                return self._scores(value, path)
            value = models.current_token_key(value, self._chain) if kind == "link token" else value
            result = (_identity if kind == "text" and is_essential else _READERS[kind])(value)
        except _Unfit as error:
            if is_essential and kind != "link token":
                raise _NoRow(path, str(error)) from error
            if value is not None:
                self.note(UNREADABLE_VALUE, path, str(error))
            return NULL if kind in RAW_KINDS else None
        if isinstance(value, str) and value != _cleaned(value):
            self.note(UNREADABLE_VALUE, path, "the text is not Unicode; U+FFFD replaces the invalid characters")
        return result

    def _scores(self, value: Any, path: str) -> Raw:
        """Return a map's scores as JSON. A score that has a table column is a number or null; others stay unchanged."""
        if not isinstance(value, dict):
            if value is not None:
                self.note(UNREADABLE_VALUE, path, str(_Unfit("an object", value)))
            value = {}
        scores: dict[str, Any] = {}
        kinds = {field.name: field.kind for field in fields_of(models.Scores) if field.name != "service_score"}
        kinds[models.score_name(value) or ""] = "figure"
        for name, score in _cleaned(value).items():
            kind = None if score is None else kinds.get(name)
            scores[name] = score if kind is None else self.value(kind, score, f"{path}.{name}")
        return Raw(_ENCODER.encode(scores))


def _subject(item: Any) -> str | None:
    """Return the address in an element of an answer's list, or None if it cannot be read."""
    token_key = item.get("token_key", item) if isinstance(item, dict) else None
    address = token_key.get("address") if isinstance(token_key, dict) else None
    return normalise_address(address) if isinstance(address, str) else None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Unfit("text", value)
    return str(_cleaned(value))


def _identity(value: Any) -> str:
    text = _text(value)
    if not text.strip():
        raise _Unfit("text", value, ", which is empty")
    return text


def _decimal(value: Any) -> Decimal:
    text = value.strip() if isinstance(value, str) else ""
    number = _number(text) if _NUMBER.fullmatch(text) else value
    if not isinstance(number, Decimal) or not number.is_finite():
        raise _Unfit("a number", value)
    return number


def _integer(value: Any) -> int:
    number = _decimal(value)
    if number.adjusted() > 20 or number != (integer := int(number)) or not -(2**63) <= integer < 2**63:
        raise _Unfit("an integer of 64 bits", value)
    return integer


def _unix_seconds(value: Any) -> int:
    seconds = _integer(value)
    if not FIRST_SECOND <= seconds <= LAST_SECOND:
        raise _Unfit("unix seconds of the years 1 to 9999", value)
    return seconds


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = value.lower() if isinstance(value, str) else ""
    if word in _WORDS:
        return _WORDS[word]
    if isinstance(value, Decimal) and value in (0, 1):
        return value == 1
    raise _Unfit("true or false", value)


def _amount(value: Any) -> Raw:
    number = _decimal(value)
    if not is_amount(number):
        raise _Unfit(f"a number of at most {LONGEST_AMOUNT} digits", value)
    return Raw(format(number, "f").encode() if number else b"0")


def _figure(value: Any) -> Raw:
    number = _decimal(value)
    if not isfinite(float(number)):
        raise _Unfit("a number in the range of a 64-bit float", value)
    return Raw(str(number).encode())


def _instant(value: Any) -> str:
    try:
        instant = from_unix(_unix_seconds(value)) if isinstance(value, Decimal) else instant_of(_text(value))
    except ValueError as error:
        raise _Unfit("an ISO 8601 date-time", value) from error
    return f"{instant.isoformat()}Z"


def _key(value: Any) -> Raw:
    try:
        parts = {name: _identity(value.get(name)) for name in ("chain", "address")} if isinstance(value, dict) else None
    except _Unfit:
        parts = None
    if parts is None:
        raise _Unfit("a token's chain and address", value)
    return Raw(_ENCODER.encode(parts))


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "text": _text,
    "address": _identity,
    "link end": lambda value: Raw(_ENCODER.encode(_identity(value))),
    "integer": _integer,
    "unix seconds": _unix_seconds,
    "flag": _flag,
    "amount": _amount,
    "figure": _figure,
    "instant": _instant,
    "link token": _key,
}


def _described(value: Any) -> str:
    """Describe a value in a few words, for the reason of an ``Unreadable``."""
    if isinstance(value, dict):
        return f"an object with {', '.join(map(repr, list(value)[:5]))}" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value):,}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(_cleaned(value)) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _cleaned(plain: Any) -> Any:
    """Return parsed JSON data with valid Unicode in all texts, and None in place of NaN."""
    if isinstance(plain, str):
        return plain if plain.isascii() else plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(plain, Decimal):
        return plain if plain.is_finite() else None
    if isinstance(plain, dict):
        return {_cleaned(name): _cleaned(value) for name, value in plain.items()}
    return [_cleaned(item) for item in plain] if isinstance(plain, list) else plain
