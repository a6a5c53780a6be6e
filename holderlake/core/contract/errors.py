"""The error codes of the API, each with its HTTP status and whether a retry can help.

Source: docs/contract.md, "Errors". The body of an error is ``{"detail": text, "code": code}``. With status 422
``detail`` is a list of validation errors instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class ErrorKind:
    """An error code of the API. ``status`` is its HTTP status, ``when`` a sentence that says when it occurs.

    ``retryable`` is True if the same call may succeed later.
    """

    code: str
    status: int
    when: str
    retryable: bool = False


_KINDS: Final = (
    ErrorKind("unsupported_token", 400, "no map can be made for the token"),
    ErrorKind("missing_key", 401, "the request carries no API key"),
    ErrorKind("invalid_key", 401, "the API key is unknown or revoked"),
    ErrorKind("plan_required", 403, "address metadata needs the custom plan"),
    ErrorKind("no_holders", 404, "the token has no holders at that time"),
    ErrorKind("unknown_token", 404, "the token is not known"),
    ErrorKind("unknown_cluster", 404, "the map has no such cluster"),
    ErrorKind("no_entities", 404, "the owner of the service has not looked for wallets of one owner"),
    ErrorKind("unknown_cursor", 404, "the cursor belongs to no page of that token at that time"),
    ErrorKind("not_found", 404, "there is no such path"),
    ErrorKind("method_not_allowed", 405, "the path does not take that method"),
    ErrorKind("too_slow", 408, "the request took too long to arrive", retryable=True),
    ErrorKind("removed", 410, "the endpoint was removed; the detail names its replacement"),
    ErrorKind("body_too_large", 413, "the request body is too large"),
    ErrorKind("unsupported_media_type", 415, "the body is not plain JSON"),
    ErrorKind("invalid_request", 422, "a parameter or the body is not valid"),
    ErrorKind("credits_exhausted", 429, "the month's credits are used up until the renewal date"),
    ErrorKind("rate_limited", 429, "too many calls a minute from one address", retryable=True),
    ErrorKind("internal_error", 500, "the service failed; the request was not charged", retryable=True),
    ErrorKind("unavailable", 503, "the service can't answer now", retryable=True),
)

ERROR_KINDS: Final[dict[str, ErrorKind]] = {kind.code: kind for kind in _KINDS}


def error_code(status: int, body: Any) -> str:
    """Return the code of an error answer: ``code`` in its body, or else the usual code for its HTTP status."""
    if isinstance(body, dict) and isinstance(body.get("code"), str):
        return str(body["code"])
    by_status = {
        400: "unsupported_token",
        401: "invalid_key",
        402: "credits_exhausted",
        403: "forbidden",
        404: "no_holders",
        410: "removed",
        413: "body_too_large",
        422: "invalid_request",
        429: "limit_reached",
    }
    return by_status.get(status, "unavailable" if status >= 500 else "unexpected_status")


def error_detail(body: Any, raw: str) -> str:
    """Return the detail of an error answer as text.

    ``detail`` may be text, a list of validation errors or an object. Other servers name it ``message``, ``error`` or
    ``title``. If the body has none of these, return the first 300 characters of the raw text.
    """
    return _text(body) or raw[:300]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(_validation_text(item) for item in value)
    if isinstance(value, dict):
        return next((text for key in _DETAIL_KEYS if (text := _text(value.get(key)))), "")
    return "" if value is None else str(value)


_DETAIL_KEYS: Final = ("detail", "message", "msg", "error", "errors", "title", "error_description", "reason")


def _validation_text(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    loc = item.get("loc")
    path = ".".join(str(part) for part in loc) if isinstance(loc, list) else ""
    text = _text(item)
    return f"{path}: {text}" if path else text
