"""Read rows of JSON files: one object per line, an array of objects, or an API's answer that contains them.

A row may also be an array of plain values, whose columns are ``column1``, ``column2`` and so on, or an entry of an
object whose keys are addresses. The columns of such an entry are ``key`` and ``value``, or ``key`` and those of the
object that is its value.

All values become texts. Nested objects become columns with dotted names (``token.address``), except those by which
programs write large integers, such as ``{"type": "BigNumber", "hex": "0x1"}``. Lists become their JSON text, but a list
of one address becomes that address.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, TextIO

import pyarrow as pa

from holderlake.core.contract.chains.addresses import is_any_address, shown
from holderlake.core.contract.text import printable
from holderlake.engine.errors import BadSource
from holderlake.sources.envelopes import LISTS, OF_TOKEN, WRAPPERS, Pages, error_in, is_by_address, is_page, lists_in
from holderlake.sources.problems import bad_source

_NUMBER_KEYS: Final = frozenset({"$numberLong", "$numberInt", "$numberDecimal", "$bigint"})
TOO_DEEP: Final = "the JSON is nested too deeply; write rows of plain values"
REPEATED: Final = "repeated"
_BATCH: Final = 1 << 14
_PIECE: Final = 1 << 20
_LONGEST_WORD: Final = 16
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NO_OBJECT: Final = "not a complete JSON object; write one object on each line"


def read_json(path: Path, stream: TextIO, rows_at: str | None = None, pages: Pages | None = None) -> pa.Table:
    """Return the rows as a table of text columns. What the file says about further pages is added to ``pages``.

    ``rows_at`` is the dotted path to the list of rows. It is needed if there are several lists, or if each row contains
    a list. Raises ``BadSource`` for incomplete JSON or for JSON without rows.
    """
    rows, parts, count = _rows(path, stream, rows_at, pages or Pages()), [pa.table({})], 0
    while batch := list(islice(rows, _BATCH)):
        parts.append(_table(path, batch, count))
        count += len(batch)
    return pa.concat_tables(parts[1:] or parts, promote_options="default")


def _table(path: Path, rows: Sequence[Mapping[str, str | None]], count: int) -> pa.Table:
    """Return rows as a table. ``count`` is the number of the file's rows before them."""
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        if not _is_text(name):
            raise bad_source(
                path, f"the key {printable(name)} has half of a surrogate pair, which is no character; correct the key"
            )
    return pa.table({name: _array(path, name, [row.get(name) for row in rows], count) for name in names})


def _array(path: Path, name: str, values: list[str | None], count: int) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        row = next(number for number, text in enumerate(values, start=count + 1) if text and not _is_text(text))
        raise bad_source(
            path, "half of a surrogate pair, which is no character; correct the text", column=printable(name), row=row
        ) from None


def _is_text(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _rows(path: Path, stream: TextIO, rows_at: str | None, pages: Pages) -> Iterator[dict[str, str | None]]:
    steps = tuple(rows_at.split(".")) if rows_at else ()
    for document in _documents(path, stream):
        for record in _records(document, steps, pages):
            pairs = list(_flat("", record))
            row = dict(pairs)
            if len(row) < len(pairs):
                raise document.bad(f"{repetition(pairs)}; remove the repetition")
            yield row


@dataclass(frozen=True)
class _Document:
    """A JSON document of a file, in its line or as its page (numbers from 1). ``is_alone``: it has rows of its own."""

    path: Path
    value: Any
    is_alone: bool
    line: int | None = None
    page: int | None = None

    def bad(self, reason: str) -> BadSource:
        return bad_source(self.path, reason, line=self.line, page=self.page)


def _documents(path: Path, stream: TextIO) -> Iterator[_Document]:
    head = stream.read(_PIECE)
    if head.lstrip("\ufeff \t\r\n").startswith("["):
        elements = _Elements(path, head.lstrip("\ufeff \t\r\n")[1:], stream)
        are_pages = False
        for page, element in enumerate(elements, start=1):
            are_pages = are_pages or is_page(element)
            if are_pages or (isinstance(element, dict) and error_in(element, is_alone=False)):
                yield _Document(path, element, is_alone=True, page=page)
            else:
                yield _Document(path, [element], is_alone=True)
        head = elements.text
        if not (head := head.lstrip() or stream.read(_PIECE).lstrip()):
            return
    texts = _lines(head, stream)
    lines = ((number, text) for number, text in enumerate(texts, start=1) if text.strip())
    line, first_line = next(lines, (1, ""))
    try:
        value = _decoded(path, first_line, line)
    except (ValueError, RecursionError):
        yield _Document(path, _whole_document(path, line, first_line + "".join(texts)), is_alone=True)
        return
    following = next(lines, None)
    yield _Document(path, value, following is None, line)
    for line, text in [following, *lines] if following else ():
        yield _Document(path, _line(path, line, text), False, line)


class _Elements:
    """The elements of a JSON array, read in pieces, so that a large file is never in memory as a whole.

    ``text`` is the part of the file that was read and is not decoded yet. At first it follows the opening bracket, in
    the end the closing one.
    """

    def __init__(self, path: Path, text: str, stream: TextIO) -> None:
        self._path, self.text, self._stream = path, text, stream

    def __iter__(self) -> Iterator[Any]:
        place, is_first = self._next_sign(0), True
        while self.text[place] != "]":
            if not is_first:
                if self.text[place] != ",":
                    raise self._incomplete("',' or ']' is expected between two elements")
                place = self._next_sign(place + 1)
            element, place = self._decoded(place)
            yield element
            place, is_first = self._next_sign(place), False
        self.text = self.text[place + 1 :]

    def _next_sign(self, place: int) -> int:
        """Return the place of the next sign that is no space. Raises ``BadSource`` at the end of the file."""
        place = _SPACE.match(self.text, place).end()  # type: ignore[union-attr]  # it matches the empty text
        while place == len(self.text):
            if not self._read_more(place):
                raise self._incomplete("the array does not end")
            place = _SPACE.match(self.text, 0).end()  # type: ignore[union-attr]
        return place

    def _read_more(self, place: int) -> bool:
        """Read the next piece, and forget the text before ``place``. Return False at the end of the file."""
        piece = self._stream.read(max(_PIECE, len(self.text) - place))
        self.text = self.text[place:] + piece
        return bool(piece)

    def _decoded(self, place: int) -> tuple[Any, int]:
        """Return the element at a place, and the place after it."""
        while True:
            try:
                element, end = _DECODER.raw_decode(self.text, place)
            except RepeatedKey as error:
                raise bad_source(self._path, f"{error}; remove the repetition") from None
            except RecursionError:
                raise bad_source(self._path, TOO_DEEP) from None
            except json.JSONDecodeError as error:
                # the error is where the piece ends, or in a text that the piece cuts
                is_cut = len(self.text) - error.pos < _LONGEST_WORD or error.msg.startswith("Unterminated")
                if not is_cut or not self._read_more(place):
                    raise self._incomplete(str(error)) from None
                place = 0
            else:
                if end < len(self.text) or not self._read_more(place):  # a number may continue in the next piece
                    return element, end
                place = 0

    def _incomplete(self, reason: str) -> Exception:
        return bad_source(self._path, f"not complete JSON ({reason}); fetch the file again")


def _lines(head: str, stream: TextIO) -> Iterator[str]:
    """Yield the lines of a text and of the stream that continues it."""
    *lines, last_line = head.splitlines(keepends=True) or [""]
    yield from lines
    yield last_line if last_line.endswith(("\n", "\r")) else last_line + stream.readline()
    yield from stream


def _line(path: Path, line: int, text: str) -> Any:
    try:
        return _decoded(path, text, line)
    except (ValueError, RecursionError):
        raise bad_source(path, _NO_OBJECT, line=line) from None


def _whole_document(path: Path, line: int, text: str) -> Any:
    try:
        return _decoded(path, text)
    except RecursionError:
        raise bad_source(path, TOO_DEEP) from None
    except ValueError as error:
        if "\n{" in text.strip():
            raise bad_source(path, _NO_OBJECT, line=line) from None
        raise bad_source(path, f"not complete JSON ({error}); fetch the file again") from None


def _decoded(path: Path, text: str, line: int | None = None) -> Any:
    """Return the value of a text. Raises ``BadSource`` for a repeated key, ``ValueError`` or ``RecursionError``."""
    try:
        return _DECODER.decode(text)
    except RepeatedKey as error:
        raise bad_source(path, f"{error}; remove the repetition", line=line) from None


class RepeatedKey(ValueError):
    """A key is repeated in a JSON object, so its value is not clear."""


def unambiguous_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dictionary, as ``object_pairs_hook``. Raises ``RepeatedKey``.

    A token that a contract map has twice gets a sentence about it under ``REPEATED``, because real maps have such ones.
    """
    result = dict(pairs)
    if len(result) == len(pairs):
        return result
    names = Counter(name for name, _ in pairs)
    repeated = [name for name, count in names.items() if count > 1]
    if not all(isinstance(result[name], dict) and OF_TOKEN.issubset(result[name]) for name in repeated):
        raise RepeatedKey(repetition(pairs))
    return result | {name: result[name] | {REPEATED: repetition([(name, None)] * 2)} for name in repeated}


def repetition(pairs: list[tuple[str, Any]]) -> str:
    """Return a sentence about the first key that occurs more than once."""
    names = [name for name, _ in pairs]
    repeated = next(name for name in names if names.count(name) > 1)
    return f"the key {repeated!r} is repeated in a JSON object"


_DECODER: Final = json.JSONDecoder(
    parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=unambiguous_object
)


def _records(document: _Document, steps: tuple[str, ...], pages: Pages) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a document. ``steps`` is the path to the rows, key by key. It may begin at the document or at
    its only list of rows.

    If the path leads through a list, the row that contains the list is repeated for each of its elements.
    """
    answer, is_alone = document.value, document.is_alone
    if isinstance(answer, dict):
        error = error_in(answer, is_alone)
        if error:
            raise document.bad(f"an API's error instead of rows: {error}; fetch it again")
        if not steps or (is_alone and steps[0] not in answer):
            rows_at = _steps_to_rows(document)
            steps = (*rows_at, *steps) if rows_at or is_by_address(answer) else steps
    found, rest = answer, list(steps)
    while rest and isinstance(found, dict) and (is_alone or rest[0].lower() in WRAPPERS):
        if is_by_address(found) and rest[0] not in found:
            break
        step = rest.pop(0)
        if step not in found:
            seen = printable(", ".join(found)) or "nothing"
            raise document.bad(f"the key {step} of --rows {'.'.join(steps)} is missing; the keys are {seen}")
        found = found[step]
    rows = _entries(found) if isinstance(found, dict) else [] if found is None else found
    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        raise document.bad("not a JSON object; write one object on each line, or a list of objects")
    count = 0
    for row in rows:
        for record in _exploded(document, _named(row), rest):
            count += 1
            yield record
    if isinstance(answer, dict) and steps:
        pages.add(answer, steps, count)


def _entries(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rows of an object: its entries if its keys are addresses, else the object itself."""
    if not is_by_address(document):
        return [document]
    return [
        {"key": key, **value} if isinstance(value, dict) else {"key": key, "value": value}
        for key, value in document.items()
    ]


def _is_row(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and not any(isinstance(cell, dict) for cell in value))


def _named(row: Mapping[str, Any] | list[Any]) -> Mapping[str, Any]:
    """Return a row as an object. The cells of an array are named ``column1``, ``column2`` and so on.

    An object that has only a value by an address gets the columns ``key`` and ``value``.
    """
    if isinstance(row, list):
        return {f"column{number}": cell for number, cell in enumerate(row, start=1)}
    if len(row) == 1 and all(is_any_address(key) and isinstance(value, str) for key, value in row.items()):
        return dict(zip(("key", "value"), *row.items(), strict=True))
    return row


def _exploded(document: _Document, row: Mapping[str, Any], steps: list[str]) -> Iterator[Mapping[str, Any]]:
    if not steps:
        yield row
        return
    inner = row.get(steps[0])
    if len(steps) == 1 and isinstance(inner, list) and inner and _is_row(inner):
        yield {**row, steps[0]: _named(inner)}
        return
    elements = inner if isinstance(inner, list) else _entries(inner) if isinstance(inner, dict) else [inner]
    if inner is None:
        return
    for element in elements:
        if not isinstance(element, dict):
            raise document.bad(
                f"--rows: {steps[0]} has {shown(element)}, which is no object; name a key with a list of objects"
            )
        for found in _exploded(document, element, steps[1:]):
            yield {**row, steps[0]: found}


def _steps_to_rows(document: _Document) -> tuple[str, ...]:
    """Return the path to the only list of rows in an API's answer; empty if the document itself is a row."""
    lists = list(lists_in(document.value))
    found = [steps for steps, _ in lists if not LISTS.isdisjoint(step.lower() for step in steps)]
    if not found and document.is_alone:
        found = [steps for steps, rows in lists if rows]
    filled = {steps for steps, rows in lists if rows}
    found = [steps for steps in found if steps in filled] or found[:1]
    if len(found) > 1:
        choices = " or ".join(f"--rows {printable('.'.join(steps))}" for steps in found)
        raise document.bad(f"the file has more than one list of rows; choose one with {choices}")
    if not found and "jsonrpc" in document.value and isinstance(document.value.get("result"), dict):
        return ("result",)
    return found[0] if found else ()


def _flat(prefix: str, row: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    for name, value in row.items():
        if isinstance(value, dict) and (number := _wrapped_number(value)) is not None:
            yield f"{prefix}{name}", number
        elif isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        elif isinstance(value, list):
            yield f"{prefix}{name}", value[0] if _is_one_address(value) else json.dumps(value)
        else:
            yield f"{prefix}{name}", None if value is None else str(value)


def _wrapped_number(value: Mapping[str, Any]) -> str | None:
    """Return the number of an object by which a program writes a large integer; None for any other object."""
    digits = value.get("_hex", value.get("hex") if value.get("type") == "BigNumber" else None)
    if len(value) == 1:
        (name,) = value
        digits = value[name] if name in _NUMBER_KEYS else digits
    return digits if isinstance(digits, str) else None


def _is_one_address(cells: Sequence[Any]) -> bool:
    return len(cells) == 1 and isinstance(cells[0], str) and is_any_address(cells[0])
