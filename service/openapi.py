"""What routes declare in the API description: answers with examples and headers, and every error with its code.

The codes are the contract's; the examples stand in ``examples.json``, taken from the sample world.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

from contract.errors import ERROR_KINDS
from contract.models import ErrorBody, HTTPValidationError
from service.formats import Format

Responses = dict[int | str, dict[str, Any]]

_METERED: Final = ("credits_exhausted",)
_ALWAYS: Final = (
    "missing_key",
    "invalid_key",
    "too_slow",
    "body_too_large",
    "unsupported_media_type",
    "headers_too_large",
    "rate_limited",
    "internal_error",
    "unavailable",
)
_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
_TOKEN_LINK: Final = {
    "chain": "$response.body#/0/token_key/chain",
    "token_address": "$response.body#/0/token_key/address",
}
_LINKS: Final = {
    "search": {
        name: {"operationId": name, "parameters": _TOKEN_LINK}
        for name in ("token_map", "holders", "metrics", "token_metadata", "screenshot", "x_holders", "x_evidence")
    },
    "holders": {
        "address_metadata": {
            "operationId": "address_metadata",
            "parameters": {"address": "$response.body#/0/address"},
        }
    },
    "x_holders": {
        "x_holders": {"operationId": "x_holders", "parameters": {"cursor": "$response.body#/next_cursor"}},
    },
}
"""How an answer leads to the next request."""


def described(endpoint: str, *codes: str, tabular: bool = False, metered: bool = True) -> Responses:
    """The answers of a route that needs a key: the good one, the unchanged one, and errors by status."""
    good: dict[str, Any] = {"headers": _headers(metered), "content": {"application/json": _example(endpoint)}}
    if tabular:
        good["content"] |= {form.value: _BINARY for form in (Format.ARROW, Format.PARQUET)}
    if endpoint in _LINKS:
        good["links"] = _LINKS[endpoint]
    responses: Responses = {200: good}
    if metered:
        responses[304] = {"description": "The caller has this answer already (`If-None-Match`); free."}
    return responses | error_responses(*codes, *_ALWAYS, *(_METERED if metered else ())) | _invalid()


def error_responses(*codes: str) -> Responses:
    """Errors by status, each code with an example."""
    declared: Responses = {}
    for code in codes:
        kind = ERROR_KINDS[code]
        entry = declared.setdefault(
            kind.status,
            {"model": ErrorBody, "description": "", "content": {"application/json": {"examples": {}}}},
        )
        entry["description"] = "; ".join(filter(None, (entry["description"], f"`{code}`: {kind.when}")))
        example = {"summary": kind.when, "value": {"detail": kind.when.capitalize(), "code": code}}
        entry["content"]["application/json"]["examples"][code] = example
        if kind.retryable and kind.status in (429, 503):
            entry["headers"] = {"Retry-After": _header("Seconds after which to ask again.", "integer")}
    return declared


def _invalid() -> Responses:
    kind = ERROR_KINDS["invalid_request"]
    value = {
        "detail": [{"loc": ["query", "limit"], "msg": "Input should be 80, 250 or 500", "type": "literal_error"}],
        "code": "invalid_request",
    }
    return {
        422: {
            "model": HTTPValidationError,
            "description": f"`invalid_request`: {kind.when}",
            "content": {"application/json": {"examples": {"invalid_request": {"summary": kind.when, "value": value}}}},
        }
    }


def _headers(metered: bool) -> dict[str, Any]:
    always = {"X-Request-Id": _header("Names this request in the service's log.")}
    if not metered:
        return always
    return always | {
        "X-Credits-Cost": _header("Credits that this answer cost."),
        "X-Credits-Remaining": _header("Credits that are left until the renewal date."),
        "X-Dt-Update": _header("When a map or a list of holders was made: ISO 8601, UTC, without zone."),
        "ETag": _header("Names this very answer, for `If-None-Match`."),
    }


def _header(description: str, kind: str = "string") -> dict[str, Any]:
    return {"description": description, "schema": {"type": kind}}


def _example(endpoint: str) -> dict[str, Any]:
    example = examples().get(endpoint)
    return {} if example is None else {"example": example}


@cache
def examples() -> dict[str, Any]:
    """One answer of each endpoint, shortened, by the endpoint's name."""
    loaded: dict[str, Any] = json.loads(files("service").joinpath("examples.json").read_text())
    return loaded
