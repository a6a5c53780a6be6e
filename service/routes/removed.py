"""Paths that earlier versions had. They say where to go, need no key and cost nothing."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Response

from service.errors import error_response
from service.openapi import error_responses

router = APIRouter(tags=["removed"], deprecated=True)

_GONE: Final = error_responses("removed", "rate_limited")


@router.get("/chains", status_code=410, responses=_GONE)
def removed_chains() -> Response:
    """Removed in 0.3.0."""
    return error_response("removed", "GET /chains was removed; use GET /v0/chains")


@router.get("/maps/{rest:path}", status_code=410, responses=_GONE)
def removed_maps(rest: str) -> Response:
    """Removed in 0.3.0."""
    del rest
    return error_response(
        "removed", "GET /maps/{chain}/{token_address} was removed; use GET /v0/tokens/map/{chain}/{token_address}"
    )
