"""Declarations of single routes in the OpenAPI document: answers with examples and headers, and errors.

The examples are in ``examples.json``, taken from the sample world. ``description`` completes the document for all
routes together.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

from pydantic import BaseModel

from holderlake.core.contract.errors import ERROR_KINDS
from holderlake.core.contract.models import ErrorBody, ValidationItem
from holderlake.core.contract.requests import RulesRequest
from holderlake.service.output.formats import Format

Responses = dict[int | str, dict[str, Any]]

ANY_REQUEST: Final = ("rate_limited", "internal_error", "unavailable")
_KEYED: Final = ("missing_key", "invalid_key", "too_slow", "body_too_large", "unsupported_media_type", *ANY_REQUEST)
_METERED: Final = ("credits_exhausted",)
_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
_CREDITS: Final = {"type": "string", "pattern": "^[0-9]+[.][0-9]{2}$"}
_HEADERS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "X-Request-Id": (
        "Identifies this request in the service's log.",
        {"type": "string", "pattern": "^[A-Za-z0-9._-]+$"},
    ),
    "ETag": ("Identifies this answer, for `If-None-Match`.", {"type": "string", "pattern": '^"[0-9a-f]+"$'}),
    "X-Credits-Cost": ("Credits charged for this answer.", _CREDITS),
    "X-Credits-Remaining": ("Credits left until the renewal date.", _CREDITS),
    "X-Rules": (
        "Path of the rules by which this service makes maps; other providers have no such path.",
        {"type": "string", "enum": [RulesRequest.route]},
    ),
    "X-Dt-Update": ("Time of computation: ISO 8601, UTC, without zone.", {"type": "string"}),
    "X-Next-Cursor": ("The answer's `next_cursor`, for Arrow and Parquet.", {"type": "string"}),
    "WWW-Authenticate": ("The authentication scheme.", {"type": "string", "enum": ["ApiKey"]}),
    "Retry-After": ("Seconds to wait before a retry.", {"type": "integer", "minimum": 1}),
}
_SOMETIMES: Final = frozenset({"X-Next-Cursor", "Retry-After"})
_WITH_DT_UPDATE: Final = frozenset({"map", "metrics", "holders"})


class InvalidRequest(BaseModel):
    """Body of a 422: a list of errors, each with the location of the wrong value."""

    detail: list[ValidationItem]
    code: Literal["invalid_request"]


def described(endpoint: str, *codes: str, tabular: bool = False, metered: bool = True) -> Responses:
    """Return the declared responses (200, 304 and errors), by status, of a route that needs a key.

    ``codes`` are error codes of this route in addition to the common ones. A ``tabular`` route also answers in Arrow
    and Parquet. A ``metered`` route costs credits.
    """
    success: dict[str, Any] = {
        "headers": _headers_of(endpoint, metered),
        "content": {"application/json": _example(endpoint)},
    }
    if tabular:
        success["content"] |= {form.value: _BINARY for form in (Format.ARROW, Format.PARQUET)}
    errors = error_responses(*codes, *_KEYED, *(_METERED if metered else ()))
    return {200: success} | (unchanged("X-Credits-Cost") if metered else {}) | errors | invalid()


def unchanged(*header_names: str) -> Responses:
    """Return the declaration of a 304, by status. ``header_names`` are the headers that it has besides
    ``X-Request-Id`` and ``ETag``."""
    text = "The caller has this answer already (`If-None-Match`); free."
    return {304: {"description": text, "headers": headers("X-Request-Id", "ETag", *header_names)}}


def error_responses(*codes: str) -> Responses:
    """Return declarations of error responses by status, with an example for each error code."""
    declared: Responses = {}
    for code in codes:
        kind = ERROR_KINDS[code]
        entry = declared.setdefault(
            kind.status,
            {
                "model": ErrorBody,
                "description": "",
                "content": {"application/json": {"examples": {}}},
                "headers": headers("WWW-Authenticate") if kind.status == 401 else {},
            },
        )
        entry["description"] = "; ".join(filter(None, (entry["description"], f"`{kind.code}`: {kind.when}")))
        example = {"summary": kind.when, "value": {"detail": kind.when.capitalize(), "code": kind.code}}
        entry["content"]["application/json"]["examples"][kind.code] = example
        if kind.retryable and kind.status in (429, 503):
            entry["headers"] |= headers("Retry-After")
    return declared


def invalid() -> Responses:
    """Return the declaration of a 422 (an invalid value in the request), by status."""
    kind = ERROR_KINDS["invalid_request"]
    value = {
        "detail": [{"loc": ["query", "limit"], "msg": "Must be 80, 250 or 500", "type": "literal_error"}],
        "code": "invalid_request",
    }
    return {
        422: {
            "model": InvalidRequest,
            "description": f"`invalid_request`: {kind.when}",
            "content": {"application/json": {"examples": {"invalid_request": {"summary": kind.when, "value": value}}}},
        }
    }


def headers(*names: str) -> dict[str, Any]:
    """Return declarations of the named response headers, by name."""
    return {
        name: {"description": _HEADERS[name][0], "required": name not in _SOMETIMES, "schema": _HEADERS[name][1]}
        for name in names
    }


def _headers_of(endpoint: str, metered: bool) -> dict[str, Any]:
    names = ["X-Request-Id"]
    if metered:
        names += ["ETag", "X-Credits-Cost", "X-Credits-Remaining", "X-Rules"]
    if endpoint in _WITH_DT_UPDATE:
        names.append("X-Dt-Update")
    if endpoint == "x_holders":
        names.append("X-Next-Cursor")
    return headers(*names)


def _example(endpoint: str) -> dict[str, Any]:
    example = examples().get(endpoint)
    return {} if example is None else {"example": example}


@cache
def examples() -> dict[str, Any]:
    """Return one shortened answer of each endpoint, by the name of the endpoint."""
    loaded: dict[str, Any] = json.loads(files("holderlake.service.output").joinpath("examples.json").read_text("utf-8"))
    return loaded
