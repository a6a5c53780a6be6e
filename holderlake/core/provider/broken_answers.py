"""Answers that cannot be used although the call may have been charged: kinds, recognition, and several in a row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final, get_origin

import msgspec
from pydantic import AliasChoices, BaseModel

from holderlake.core.contract.prices import credits_text
from holderlake.core.contract.requests import Request
from holderlake.core.http import HttpResponse
from holderlake.core.provider.errors import (
    CAUSES,
    AnswersBreak,
    Broken,
    BrokenAnswer,
    NotAnswer,
    RateLimited,
    TransientError,
)
from holderlake.core.provider.refusals import is_rate_limit, seconds_until_reset

IN_A_ROW: Final = 5
"""Number of broken answers in a row that stops a run."""
_NOT_ANSWERS: Final[dict[NotAnswer, str]] = {
    "page": "a web page",
    "empty": "an empty body",
    "cut": "a body that is not JSON",
    "error": "JSON without any field of an answer, for example an error message",
    "no_rows": "an empty list, where each answer has rows",
    "limited": "a text about the rate limit",
}
_NOT_JSON: Final = object()


def not_answer_in(raw: bytes, request: Request) -> NotAnswer | None:
    """Return the reason why a body with a 2xx status cannot be an answer to a request; None if it may be one.

    Such a body comes from another server, says why there is no answer, or was cut on the way. The decoder checks all
    other bodies.
    """
    start = raw[:1_000].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        return "empty"
    if start[:1] == b"<":
        return "page"
    if not _is_json(raw):
        return "cut"
    if get_origin(request.answer) is list:
        if start[:1] == b"[":
            return "no_rows" if request.has_rows and start[1:].lstrip()[:1] == b"]" else None
    elif not _fields_in(raw).isdisjoint(_field_names(request.answer)):
        return None
    return "limited" if is_rate_limit(raw) else "error"


def error_of_body(kind: NotAnswer, response: HttpResponse, described: Callable[[str, str], str]) -> TransientError:
    """Return the exception for a response with a status of success whose body is no answer, without a charge.

    ``described(subject, reason)`` returns its text. A text about the rate limit slows the calls, as HTTP 429 does.
    """
    start = response.content[:1_000].decode("utf-8", "replace")
    detail = described("gave no answer", f"{_NOT_ANSWERS[kind]}: {start[:60]!r}")
    error: TransientError = BrokenAnswer(detail, None, response.status)
    if kind == "limited":
        error = RateLimited(detail, None, response.status)
        error.retry_after = seconds_until_reset(response.headers)
    error.maybe_charged, error.broken, error.body = True, kind, response.content
    error.answer_hash = hashlib.sha256(response.content).hexdigest() if response.content else None
    return error


def _fields_in(raw: bytes) -> set[str]:
    """Return the names of the fields of a JSON object; empty for other JSON."""
    try:
        return {*msgspec.json.decode(raw, type=dict[str, msgspec.Raw])}
    except (msgspec.DecodeError, RecursionError):
        body = _lenient_json(raw)
        return {*body} if isinstance(body, dict) else set()


@cache
def _field_names(model: type[BaseModel]) -> frozenset[str]:
    """Return the names that the fields of a model may have in an answer."""
    names: set[Any] = {*model.model_fields}
    for field_info in model.model_fields.values():
        alias = field_info.validation_alias
        names |= {*alias.choices} if isinstance(alias, AliasChoices) else {alias}
    return frozenset(names)


def _is_json(raw: bytes) -> bool:
    """Return whether bytes are JSON for some reader: invalid UTF-8, NaN and long numbers are allowed."""
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return _lenient_json(raw) is not _NOT_JSON
    return True


def _lenient_json(raw: bytes) -> Any:
    """Return JSON bytes as plain data, with numbers as text; ``_NOT_JSON`` for other bytes."""
    text = raw.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    try:
        return json.loads(text, parse_int=str, parse_float=str, strict=False)
    except (ValueError, RecursionError):
        return _NOT_JSON


class BrokenStreak:
    """Counter of consecutive answers that broke in the same way (``errors.Broken``)."""

    def __init__(self) -> None:
        self._how: Broken | None = None
        self._count = self._credits = 0

    def intact(self) -> None:
        """Set the count to zero, after an answer that is not broken."""
        self._how, self._count, self._credits = None, 0, 0

    def broke(self, how: Broken, credits: int) -> AnswersBreak | None:
        """Count an answer that broke in the way ``how``, and its possible cost in hundredths of a credit.

        Return the error that stops the run after five answers that broke in the same way, else None.
        """
        if how != self._how:
            self.intact()
        self._how, self._count, self._credits = how, self._count + 1, self._credits + credits
        if self._count < IN_A_ROW or how == "limited":
            return None
        description, remedy = CAUSES[how]
        return AnswersBreak(
            f"{self._count} answers in a row {description}, and up to {credits_text(self._credits)} credits may have "
            f"been charged for them; the run stops before more is lost. {remedy} 'holderlake credits' shows the calls."
        )
