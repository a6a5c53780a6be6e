"""Paths that earlier versions had: they answer 410 with the name of the replacement, without a key and free.

They are not among the paths of the OpenAPI document, so that no client is generated for them.
"""

from __future__ import annotations

from fastapi import APIRouter, Response

from holderlake.service.errors import error_response

router = APIRouter(include_in_schema=False)


@router.get("/chains")
def removed_chains() -> Response:
    """Answer 410: version 0.3.0 replaced GET /chains by GET /v0/chains."""
    return error_response("removed", "GET /chains was removed; use GET /v0/chains")


@router.get("/maps/{rest:path}")
def removed_maps(rest: str) -> Response:
    """Answer 410: version 0.3.0 replaced GET /maps/… by GET /v0/tokens/map/…."""
    del rest
    return error_response(
        "removed", "GET /maps/{chain}/{token_address} was removed; use GET /v0/tokens/map/{chain}/{token_address}"
    )
