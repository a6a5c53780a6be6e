"""Tokens: their maps, metrics, holders and metadata, and the search for them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query, Response

from contract.models import Holder, Map, Metrics, Token, TokenKey
from contract.requests import (
    MAX_METADATA_TOKENS,
    HoldersRequest,
    MapRequest,
    MetricsRequest,
    SearchRequest,
    TokenMetadataRequest,
    TokensMetadataRequest,
)
from service import answers
from service.errors import error_models
from service.metering import MeteredRoute, MeterOfCall
from service.queries import HoldersQuery, MapQuery, PathToken

router = APIRouter(prefix="/v0/tokens", tags=["tokens"], route_class=MeteredRoute)

_OF_ONE_TOKEN = error_models("unsupported_token", "no_holders", "unknown_token")
_SearchText = Annotated[str, Query(alias="query", min_length=2, max_length=256, description="Name, ticker or address.")]
_WithStats = Annotated[bool, Query(description="Add the number of transfers and their dates (surcharge).")]
_TokenKeys = Annotated[list[TokenKey], Body(max_length=MAX_METADATA_TOKENS)]


@router.get("/map/{chain}/{token_address}", response_model=Map, responses=_OF_ONE_TOKEN)
def token_map(token: PathToken, options: MapQuery, meter: MeterOfCall) -> Response:
    """A token's holders, the transfers between them, their clusters and metrics, now or at a past instant."""
    request = MapRequest(chain=token.chain, token_address=token.address, options=options)
    return meter.answer(request, answers.token_map)


@router.get("/metrics/{chain}/{token_address}", response_model=Metrics, responses=_OF_ONE_TOKEN)
def metrics(token: PathToken, meter: MeterOfCall) -> Response:
    """The metrics of a token's map."""
    return meter.answer(MetricsRequest(chain=token.chain, token_address=token.address), answers.metrics)


@router.get("/holders/{chain}/{token_address}", response_model=list[Holder], responses=_OF_ONE_TOKEN)
def holders(token: PathToken, options: HoldersQuery, meter: MeterOfCall) -> Response:
    """A token's top holders by rank, now or at a past instant."""
    request = HoldersRequest(chain=token.chain, token_address=token.address, options=options)
    return meter.answer(request, answers.holders)


@router.get("/metadata/{chain}/{token_address}", response_model=Token, responses=error_models("unknown_token"))
def token_metadata(token: PathToken, meter: MeterOfCall, return_token_stats: _WithStats = False) -> Response:
    """A token's name and symbol."""
    request = TokenMetadataRequest(
        chain=token.chain, token_address=token.address, return_token_stats=return_token_stats
    )
    return meter.answer(request, answers.token_metadata)


@router.post("/metadata", response_model=list[Token], responses=error_models("body_too_large"))
def tokens_metadata(tokens: _TokenKeys, meter: MeterOfCall, return_token_stats: _WithStats = False) -> Response:
    """Names and symbols of many tokens; unknown ones are left out."""
    request = TokensMetadataRequest(tokens=tuple(tokens), return_token_stats=return_token_stats)
    return meter.answer(request, answers.tokens_metadata)


@router.get("/search", response_model=list[Token], responses=error_models())
def search(text: _SearchText, meter: MeterOfCall) -> Response:
    """Tokens by address, ticker or name: exact matches first."""
    return meter.answer(SearchRequest(text=text), answers.search)
