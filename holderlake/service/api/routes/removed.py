"""Paths that earlier versions had. They say where to go, need no key and cost nothing.

They stand in the words of the API description and not among its paths, for nobody is to build on them.
"""

from __future__ import annotations

from fastapi import APIRouter, Response

from holderlake.service.errors import error_response

router = APIRouter(include_in_schema=False)


@router.get("/chains")
def removed_chains() -> Response:
    """Removed in 0.3.0."""
    return error_response("removed", "GET /chains was removed; use GET /v0/chains")


@router.get("/maps/{rest:path}")
def removed_maps(rest: str) -> Response:
    """Removed in 0.3.0."""
    del rest
    return error_response(
        "removed", "GET /maps/{chain}/{token_address} was removed; use GET /v0/tokens/map/{chain}/{token_address}"
    )
