"""Answers of APIs around rows: their lists of rows, and what they say about errors and further pages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from holderlake.core.contract.chains.addresses import is_any_address
from holderlake.core.units import counted
from holderlake.sources.formats import FORMATS_TABLE, folded_name

_KEYS: Final = {kind: frozenset(keys) for kind, keys in FORMATS_TABLE["answers"].items()}
WRAPPERS: Final = _KEYS["wrappers"]
"""Keys under which answers of APIs have lists of rows, and which are never columns of a row."""
LISTS: Final = WRAPPERS | _KEYS["lists"]
"""All keys under which answers have lists of rows. Other keys count only if the file is a single JSON object."""
_TEXTS: Final[Sequence[str]] = FORMATS_TABLE["answers"]["texts"]
_OF_ANSWERS: Final = frozenset().union(*(keys for kind, keys in _KEYS.items() if kind != "lists"))
_LONGEST_TOTAL: Final = 10
"""Digits of a number that is no count of rows, but a sum of amounts."""
_DEEPEST: Final = 6
_FEWEST_KEYS: Final = 2
"""An object with fewer addresses as keys is no list of rows."""
OF_TOKEN: Final = frozenset({"symbol", "decimals"})
"""Keys by which an object is a token."""


def is_by_address(document: Mapping[str, Any]) -> bool:
    """Return whether an object is a list of rows whose keys are addresses, for example of holders, or a map of tokens.

    A value with a list of objects shows that the key's rows are in that list.
    """
    are_tokens = all(isinstance(value, dict) and OF_TOKEN.issubset(value) for value in document.values())
    return (bool(document) and are_tokens) or (
        len(document) >= _FEWEST_KEYS
        and all(map(is_any_address, document))
        and not any(count for value in document.values() if isinstance(value, dict) for _, count in lists_in(value))
    )


def lists_in(document: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield each list of objects or arrays, and each object by address, that is not inside another one: the path to it,
    and its length."""
    for name, value in document.items():
        steps = (*above, name)
        is_list = isinstance(value, list) and all(isinstance(row, dict | list) for row in value)
        if is_list and folded_name(name) == "errors":
            continue
        if is_list or (isinstance(value, dict) and is_by_address(value)):
            yield steps, len(value)
        elif isinstance(value, dict) and len(steps) < _DEEPEST:
            yield from lists_in(value, steps)


def is_page(value: Any) -> bool:
    """Return whether an element of an array is an answer with rows, and no row itself."""
    return isinstance(value, dict) and _has_keys_of_answers(value) and any(True for _ in lists_in(value))


def error_in(document: Mapping[str, Any], is_alone: bool) -> str | None:
    """Return the error that an answer has instead of rows; None for rows. ``is_alone``: it is the only one of its file.

    An object with keys of a row is a row: its column ``error`` is of its transaction.
    """
    values = {folded_name(name): value for name, value in document.items()}
    is_answer = _has_keys_of_answers(document)
    if values.get("error") and (is_answer or is_alone):
        return _shown(values["error"])
    has_rows = any(isinstance(value, list | dict) for name, value in values.items() if name in WRAPPERS)
    if any(isinstance(value, str) and is_any_address(value) for value in values.values()):
        return None
    if not is_answer or (has_rows and not values.get("errors")) or any(count for _, count in lists_in(document)):
        return None
    return next((_shown(values[name]) for name in _TEXTS if values.get(name)), None)


def _has_keys_of_answers(document: Mapping[str, Any]) -> bool:
    return bool(document) and _OF_ANSWERS.issuperset(map(folded_name, document))


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)[:200]


@dataclass
class Pages:
    """What the answers of a file say about their completeness, and the rows that they have."""

    rows: int = 0
    count: int = 0
    _total: tuple[int, str] = (0, "")
    _last_page: int = 0
    _open: int = 0
    _next: str = ""
    _errors: list[str] = field(default_factory=list)

    def add(self, document: Mapping[str, Any], steps: Iterable[str], rows: int) -> None:
        """Add an answer with its number of rows. ``steps`` is the path to the rows in it."""
        self.count += 1
        self.rows += rows
        is_open = False
        for name, value in _facts(document, tuple(steps)):
            key = folded_name(name.rpartition(".")[2])
            digits = str(value)
            number = int(digits) if digits.isdecimal() and len(digits) < _LONGEST_TOTAL else 0
            if key in _KEYS["totals"]:
                self._total = max(self._total, (number, name))
            elif key in _KEYS["pages"]:
                self._last_page = max(self._last_page, number)
            elif (key in _KEYS["more"] and value is True) or (key in _KEYS["cursors"] and value not in _NO_CURSORS):
                is_open, self._next = True, name
            elif key == "errors" and value:
                self._errors.append(_shown(value))
        self._open += is_open

    def notices(self, file: str) -> Iterator[str]:
        """Yield a sentence if the file says that it is one part of a list, and one about errors beside its rows."""
        has = f"{file}: the file says that there is more: it has {counted(self.rows, 'row')}"
        remedy = "fetch all pages, and import them together"
        total, name = self._total
        if total > self.rows:
            yield f"{has} of {total:,} ({name}); {remedy}"
        elif self._last_page > self.count:
            yield f"{has}, which are {self.count:,} of {counted(self._last_page, 'page')}; {remedy}"
        elif self._open and self._open == self.count:
            yield f"{has}, and {self._next} names the next page; {remedy}"
        if self._errors:
            yield f"{file}: the answer has errors beside its rows, so rows may be missing: {self._errors[0]}"


_NO_CURSORS: Final[tuple[object, ...]] = (None, "", False, "0", "-1", {}, [])


def _facts(document: Mapping[str, Any], rows_at: tuple[str, ...], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of an answer that are not in its rows, with their dotted names."""
    for name, value in document.items():
        if rows_at[:1] == (name,):
            if isinstance(value, dict) and len(rows_at) > 1:
                yield from _facts(value, rows_at[1:], f"{above}{name}.")
        elif isinstance(value, dict) and value and folded_name(name) not in _KEYS["cursors"]:
            yield from _facts(value, (), f"{above}{name}.")
        else:
            yield f"{above}{name}", value
