"""Maps, metrics, holders, metadata and search of tokens. Screenshots are in ``pictures``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query, Response

from holderlake.core.contract.models import Holder, Map, Metrics, Token, TokenKey
from holderlake.core.contract.requests import (
    MAX_METADATA_TOKENS,
    HoldersRequest,
    MapRequest,
    MetricsRequest,
    SearchRequest,
    TokenMetadataRequest,
    TokensMetadataRequest,
)
from holderlake.service.api import answers
from holderlake.service.api.metering import MeterDependency, MeteredRoute
from holderlake.service.api.parameters import HoldersQuery, MapQuery, PathToken, check_tokens
from holderlake.service.output.openapi import described

router = APIRouter(prefix="/v0/tokens", tags=["tokens"], route_class=MeteredRoute)

_OF_ONE_TOKEN = ("unsupported_token", "no_holders", "unknown_token")
_SearchText = Annotated[str, Query(alias="query", min_length=2, max_length=256, description="Name, ticker or address.")]
_WithStats = Annotated[bool, Query(description="Add the number of transfers and their dates (surcharge).")]
_TokenKeys = Annotated[list[TokenKey], Body(max_length=MAX_METADATA_TOKENS)]


@router.get("/map/{chain}/{token_address}", response_model=Map, responses=described("map", *_OF_ONE_TOKEN))
async def token_map(token: PathToken, options: MapQuery, meter: MeterDependency) -> Response:
    """A token's holders, the transfers between them, their clusters and metrics, now or at a past instant."""
    request = MapRequest(chain=token.chain, token_address=token.address, options=options)
    return await meter.answer(request, answers.token_map, cacheable=True)


@router.get("/metrics/{chain}/{token_address}", response_model=Metrics, responses=described("metrics", *_OF_ONE_TOKEN))
async def metrics(token: PathToken, meter: MeterDependency) -> Response:
    """The metrics of a token's map with default options, which include magic nodes and time nodes."""
    request = MetricsRequest(chain=token.chain, token_address=token.address)
    return await meter.answer(request, answers.metrics, cacheable=True)


@router.get(
    "/holders/{chain}/{token_address}",
    response_model=list[Holder],
    responses=described("holders", *_OF_ONE_TOKEN, tabular=True),
)
async def holders(token: PathToken, options: HoldersQuery, meter: MeterDependency) -> Response:
    """A token's top holders by rank, now or at a past instant."""
    request = HoldersRequest(chain=token.chain, token_address=token.address, options=options)
    return await meter.answer(request, answers.holders, cacheable=True, tabular=True)


@router.get(
    "/metadata/{chain}/{token_address}", response_model=Token, responses=described("token_metadata", "unknown_token")
)
async def token_metadata(token: PathToken, meter: MeterDependency, return_token_stats: _WithStats = False) -> Response:
    """A token's name and symbol."""
    request = TokenMetadataRequest(
        chain=token.chain, token_address=token.address, return_token_stats=return_token_stats
    )
    return await meter.answer(request, answers.token_metadata)


@router.post("/metadata", response_model=list[Token], responses=described("tokens_metadata", tabular=True))
async def tokens_metadata(
    tokens: _TokenKeys, meter: MeterDependency, return_token_stats: _WithStats = False
) -> Response:
    """Names and symbols of many tokens; unknown tokens are left out."""
    await check_tokens(meter.backend, {("body", place): token for place, token in enumerate(tokens)})
    request = TokensMetadataRequest(tokens=tuple(tokens), return_token_stats=return_token_stats)
    return await meter.answer(request, answers.tokens_metadata, tabular=True)


@router.get("/search", response_model=list[Token], responses=described("search", tabular=True))
async def search(text: _SearchText, meter: MeterDependency) -> Response:
    """Tokens by address, ticker or name: exact matches first."""
    return await meter.answer(SearchRequest(text=text), answers.search, tabular=True)
