"""Read rows of JSON files: one object per line, an array of objects, or an API's answer that contains them.

All values become texts. Nested objects become columns with dotted names (``token.address``). Lists become their JSON
text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

import pyarrow as pa

from holderlake.contract.text import printable
from holderlake.engine.sources.rows.problems import bad_source

_ENVELOPES: Final = frozenset(
    {"result", "results", "data", "items", "records", "rows", "list", "transfers", "token_transfers", "logs"}
    | {"jetton_transfers", "operations", "activity"}
)
"""Keys under which answers of APIs have lists of rows. Other keys count only if the file is a single JSON object."""
_WRAPPERS: Final = frozenset({"result", "results", "data", "items", "records", "rows", "list"})
"""Keys of ``_ENVELOPES`` that are never columns of a row.

If a file has several lines, each line may be an API's answer with its rows under such a key.
"""
_DEEPEST: Final = 6
_BROKEN: Final = object()


def read_json(path: Path, stream: TextIO, rows_at: str | None = None) -> pa.Table:
    """Return the rows as a table of text columns.

    ``rows_at`` is the dotted path to the list of rows. It is needed if there are several lists, or if each row contains
    a list. Raises ``BadSource`` for incomplete JSON or for JSON without rows.
    """
    columns: dict[str, list[str | None]] = {}
    for count, row in enumerate(_rows(path, stream, rows_at)):
        for name, value in row.items():
            columns.setdefault(name, [None] * count).append(value)
        for values in columns.values():
            if len(values) == count:
                values.append(None)
    for name in columns:
        if not _is_text(name):
            raise bad_source(
                path, f"the key {printable(name)} has half of a surrogate pair, which is no character; correct the key"
            )
    return pa.table({name: _array(path, name, values) for name, values in columns.items()})


def _array(path: Path, name: str, values: list[str | None]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        row = next(number for number, text in enumerate(values, start=1) if text and not _is_text(text))
        raise bad_source(
            path, "half of a surrogate pair, which is no character; correct the text", column=printable(name), row=row
        ) from None


def _is_text(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _rows(path: Path, stream: TextIO, rows_at: str | None) -> Iterator[dict[str, str | None]]:
    steps = tuple(rows_at.split(".")) if rows_at else ()
    for line, document, is_alone in _documents(path, stream):
        for record in _records(path, line, document, steps, is_alone):
            pairs = list(_flat("", record))
            row = dict(pairs)
            if len(row) < len(pairs):
                raise bad_source(path, f"{_repeated(pairs)}; remove the repetition", line=line)
            yield row


def _documents(path: Path, stream: TextIO) -> Iterator[tuple[int | None, Any, bool]]:
    """Yield for each JSON document of a file: its line (None if unknown), the document, and True if it is the only
    one."""
    lines = ((number, text) for number, text in enumerate(stream, start=1) if text.strip())
    line, first_text = next(lines, (1, ""))
    document = _loaded(first_text)
    if isinstance(document, _Repeated):
        raise bad_source(path, f"{document}; remove the repetition", line=line)
    if document is _BROKEN:
        complete_text = first_text + stream.read()
        yield None, _document_of(path, line, complete_text), True
        return
    following = next(lines, None)
    yield line, document, following is None
    if following is None:
        return
    line, text = following
    yield line, _line(path, line, text), False
    for line, text in lines:
        yield line, _line(path, line, text), False


def _line(path: Path, line: int, text: str) -> Any:
    document = _loaded(text)
    if isinstance(document, _Repeated):
        raise bad_source(path, f"{document}; remove the repetition", line=line)
    if document is _BROKEN:
        raise bad_source(path, "not a complete JSON object; write one object on each line", line=line)
    return document


def _document_of(path: Path, line: int, text: str) -> Any:
    try:
        return _parsed(text)
    except RecursionError:
        raise bad_source(path, "the JSON is nested too deeply; write rows of plain values") from None
    except _Repeated as error:
        raise bad_source(path, f"{error}; remove the repetition") from None
    except ValueError as error:
        if "\n{" in text.strip():
            raise bad_source(path, "not a complete JSON object; write one object on each line", line=line) from None
        raise bad_source(path, f"not complete JSON ({error}); fetch the file again") from None


def _loaded(text: str) -> Any:
    try:
        return _parsed(text)
    except (ValueError, RecursionError) as error:
        return error if isinstance(error, _Repeated) else _BROKEN


class _Repeated(ValueError):
    """A key is repeated in a JSON object, so its value is not clear."""


def _parsed(text: str) -> Any:
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise _Repeated(_repeated(pairs))
    return result


def _repeated(pairs: list[tuple[str, Any]]) -> str:
    """Return the sentence about the first key that occurs more than once."""
    names = [name for name, _ in pairs]
    repeated = next(name for name in names if names.count(name) > 1)
    return f"the key {repeated!r} is repeated in a JSON object"


def _records(
    path: Path, line: int | None, document: Any, steps: tuple[str, ...], is_alone: bool
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a document. ``steps`` is the path to the rows, key by key.

    If the path leads through a list, the row that contains the list is repeated for each of its elements.
    """
    if not steps and isinstance(document, dict):
        steps = _steps_to_rows(path, document, is_alone)
    value, steps_left = document, list(steps)
    while steps_left and isinstance(value, dict) and (is_alone or steps_left[0].lower() in _WRAPPERS):
        step = steps_left.pop(0)
        if step not in value:
            listed_keys = printable(", ".join(value)) or "nothing"
            raise bad_source(
                path, f"the key {step} of --rows {'.'.join(steps)} is missing; the keys are {listed_keys}", line=line
            )
        value = value[step]
    rows = [value] if isinstance(value, dict) else value
    if rows is None:
        return
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise bad_source(path, "not a JSON object; write one object on each line, or a list of objects", line=line)
    for row in rows:
        yield from _exploded(path, row, steps_left)


def _exploded(path: Path, row: Mapping[str, Any], steps: list[str]) -> Iterator[Mapping[str, Any]]:
    if not steps:
        yield row
        return
    inner = row.get(steps[0])
    elements = inner if isinstance(inner, list) else [] if inner is None else [inner]
    for element in elements:
        if not isinstance(element, dict):
            raise bad_source(
                path, f"--rows: the values of {steps[0]} are not objects; name a key with a list of objects"
            )
        for inner_row in _exploded(path, element, steps[1:]):
            yield {**row, steps[0]: inner_row}


def _steps_to_rows(path: Path, document: Mapping[str, Any], is_alone: bool) -> tuple[str, ...]:
    """Return the path to the only list of rows in an API's answer; empty if the document itself is a row.

    Raises ``BadSource`` if the answer is an error.
    """
    if document.get("error") or (str(document.get("status")) == "0" and isinstance(document.get("result"), str)):
        reason = json.dumps(document.get("error") or document["result"], ensure_ascii=True)[:200]
        raise bad_source(path, f"the file has an API's error instead of rows: {reason}; fetch the file again")
    lists = list(_lists(document, ()))
    paths = [steps for steps, _ in lists if not _ENVELOPES.isdisjoint(step.lower() for step in steps)]
    if not paths and is_alone:
        paths = [steps for steps, rows in lists if rows]
    paths_with_rows = {steps for steps, rows in lists if rows}
    paths = [steps for steps in paths if steps in paths_with_rows] or paths[:1]
    if len(paths) > 1:
        choices = " or ".join(f"--rows {printable('.'.join(steps))}" for steps in paths)
        raise bad_source(path, f"the file has more than one list of rows; choose one with {choices}")
    if not paths and "jsonrpc" in document and isinstance(document.get("result"), dict):
        return ("result",)
    return paths[0] if paths else ()


def _lists(document: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield each list of objects that is not inside another list: the path to it, and its length."""
    for name, value in document.items():
        steps = (*above, name)
        if isinstance(value, list) and all(isinstance(row, dict) for row in value):
            yield steps, len(value)
        elif isinstance(value, dict) and len(steps) < _DEEPEST:
            yield from _lists(value, steps)


def _flat(prefix: str, row: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        elif isinstance(value, list):
            yield f"{prefix}{name}", json.dumps(value)
        else:
            yield f"{prefix}{name}", None if value is None else str(value)
