"""Rebuild the request of an archived answer from its method, path, query and body. It has the answer's price."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from pydantic import ValidationError

from holderlake.contract.requests import ENDPOINTS, AddressMetadataRequest, Request, TokenRequest

_BODY_FIELDS: Final = {"tokens_metadata": "tokens"}
"""The field that is the complete body of a request, by endpoint; other bodies are objects of fields."""


def request_of(about: Mapping[str, Any]) -> Request | None:
    """Return the request of an archived answer; None if this version does not know its endpoint or its fields.

    ``about`` has ``method``, ``path``, ``query`` and ``body``, as the archive stores them.
    """
    for kind in ENDPOINTS:
        if kind.method == about["method"] and (fields := _path_fields(kind, str(about["path"]))) is not None:
            try:
                return kind.model_validate(fields | _other_fields(kind, about["query"], about["body"]))
            except ValidationError:
                return None
    return None


def _path_fields(kind: type[Request], path: str) -> dict[str, Any] | None:
    """Return the request's fields that ``path`` contains; None if ``path`` is of another endpoint than ``kind``."""
    parts = [unquote(part) for part in path.split("/")]
    if issubclass(kind, TokenRequest):
        *start, chain, token = parts
        return {"chain": chain, "token_address": token} if "/".join(start) == f"{kind.root}/{kind.kind}" else None
    if kind is AddressMetadataRequest:
        return {"address": parts[-1]} if "/".join(parts[:-1]) == "/v0/addresses/metadata" else None
    return {} if path == kind.route else None


def _other_fields(kind: type[Request], query: Mapping[str, str], body: Any) -> dict[str, Any]:
    if "options" in kind.model_fields:
        return {"options": dict(query)}
    if kind.endpoint == "search":
        return {"text": query["query"]}
    if kind.endpoint in _BODY_FIELDS:
        return {_BODY_FIELDS[kind.endpoint]: body, **query}
    return {**query, **(body or {})}
