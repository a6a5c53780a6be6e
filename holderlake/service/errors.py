"""Turns exceptions of routes, engine, billing and framework into the contract's error answers.

The codes and their statuses are in ``contract.errors``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, cast

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from holderlake.core.contract import exact_json
from holderlake.core.contract.errors import ERROR_KINDS
from holderlake.core.storage.sqlite import DatabaseBusy, DatabaseError
from holderlake.engine.errors import EngineError, UnusableStore
from holderlake.service.billing.keys import CreditsExhausted

_log = logging.getLogger(__name__)

INTERNAL_ERROR: Final = "The service failed; the request was not charged"
_RETRY_SECONDS: Final = "1"
_KEYS_BUSY: Final = "the database of API keys is busy or cannot be reached: try again"
_KEYS_UNUSABLE: Final = "the database of API keys cannot be used: see the service's log"
UNKNOWN_FIELD: Final = "Unknown field"
_CHAIN_ID: Final = "Must be a chain id: at most 64 letters, digits, '_', '.' and '-'"
_ADDRESS: Final = "Must be an address: visible ASCII characters without '/' and '%'"
_MESSAGES: Final[Mapping[str, str]] = {
    "missing": "Required",
    "extra_forbidden": UNKNOWN_FIELD,
    "json_invalid": "The body is not valid JSON: {error}",
    "literal_error": "Must be {expected}",
    "bool_parsing": "Must be true or false",
    "bool_type": "Must be true or false",
    "int_parsing": "Must be a whole number",
    "int_parsing_size": "Must be a smaller whole number",
    "int_type": "Must be a whole number",
    "int_from_float": "Must be a whole number",
    "greater_than_equal": "Must be {ge} or more",
    "less_than_equal": "Must be {le} or less",
    "string_type": "Must be text",
    "string_too_short": "Must have {min_length} characters or more",
    "string_too_long": "Must have {max_length} characters or fewer",
    "too_short": "Must have {min_length} items or more, but has {actual_length}",
    "too_long": "Must have {max_length} items or fewer, but has {actual_length}",
    "list_type": "Must be a list",
    "tuple_type": "Must be a list",
    "dict_type": "Must be an object",
    "model_type": "Must be an object",
    "model_attributes_type": "Must be an object",
}
"""Message to the caller (status 422) for each type of pydantic's errors. Other types keep pydantic's message."""
_FRAMEWORK_CODES: Final = {404: "not_found", 405: "method_not_allowed"}


class ServiceError(HTTPException):
    """An HTTP error with a code of ``contract.errors`` and a message for the caller. The code decides the status."""

    def __init__(self, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(ERROR_KINDS[code].status, detail, headers)
        self.code = code


def invalid_request(location: tuple[str | int, ...], message: str, kind: str = "value_error") -> RequestValidationError:
    """Return the error (status 422) for one invalid value of a request.

    ``location`` is the path of the value, for example ``("query", "limit")``. ``kind`` is the type of error in the
    answer.
    """
    return RequestValidationError([{"loc": location, "msg": message, "type": kind}])


def error_response(code: str, detail: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error answer with the status of ``code`` and a JSON body with ``detail`` and ``code``."""
    body = exact_json.encode({"detail": detail, "code": code})
    return Response(body, ERROR_KINDS[code].status, headers, "application/json")


def add_handlers(app: FastAPI) -> None:
    """Register the handlers that turn exceptions into the contract's error answers."""
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(EngineError, _engine_error)
    app.add_exception_handler(CreditsExhausted, _credits_error)
    app.add_exception_handler(DatabaseError, _database_error)


async def _http_error(_: Request, error: Exception) -> Response:
    if isinstance(error, ServiceError):
        return error_response(error.code, error.detail, error.headers)
    raised = cast(HTTPException, error)
    if raised.status_code in _FRAMEWORK_CODES:
        text = HTTPStatus(raised.status_code).phrase
        return error_response(_FRAMEWORK_CODES[raised.status_code], text, raised.headers)
    # Otherwise the body is not text: the framework raises a plain 400.
    return _invalid([{"loc": ["body"], "msg": "The body is not JSON", "type": "json_invalid"}])


async def _validation_error(_: Request, error: Exception) -> Response:
    # Other keys of an item (input, exception) hold the caller's text, or values that are not JSON.
    items = cast(RequestValidationError, error).errors()
    return _invalid([{"loc": item["loc"], "msg": _message(item), "type": item["type"]} for item in items])


def _message(item: Mapping[str, Any]) -> str:
    """Return a message for the caller about one of pydantic's errors, without pydantic's types and patterns."""
    context = item.get("ctx", {})
    if item["type"] == "string_pattern_mismatch":
        return _CHAIN_ID if item["loc"][-1] == "chain" else _ADDRESS
    if item["type"] == "missing" and item["loc"] == ("body",):
        return "A JSON body is required"
    template = _MESSAGES.get(item["type"])
    return str(item["msg"]) if template is None else template.format(**context)


def _invalid(items: list[dict[str, Any]]) -> Response:
    return error_response("invalid_request", items)


async def _engine_error(_: Request, error: Exception) -> Response:
    if isinstance(error, UnusableStore):
        _log.error("%s", error)  # for the operator only: names paths
        return error_response(error.code, error.public, {"Retry-After": _RETRY_SECONDS})
    code = cast(EngineError, error).code
    if code not in ERROR_KINDS:
        return error_response("internal_error", INTERNAL_ERROR)
    return error_response(code, str(error), {"Retry-After": _RETRY_SECONDS} if code == "unavailable" else None)


async def _credits_error(_: Request, error: Exception) -> Response:
    return error_response("credits_exhausted", str(error))


async def _database_error(_: Request, error: Exception) -> Response:
    is_busy = isinstance(error, DatabaseBusy)
    _log.log(logging.WARNING if is_busy else logging.ERROR, "the database of API keys failed: %s", error)
    # the error names file or server, which is no caller's business
    return error_response("unavailable", _KEYS_BUSY if is_busy else _KEYS_UNUSABLE, {"Retry-After": _RETRY_SECONDS})
