"""Relationships among the addresses of a request."""

from __future__ import annotations

from fastapi import APIRouter, Response

from holderlake.core.contract.models import Relationship
from holderlake.core.contract.requests import SubgraphRequest
from holderlake.service.api import answers
from holderlake.service.api.metering import MeterDependency, MeteredRoute
from holderlake.service.api.parameters import check_tokens
from holderlake.service.output.openapi import described

router = APIRouter(prefix="/v0/relationships", tags=["relationships"], route_class=MeteredRoute)


@router.post("/subgraph", response_model=list[Relationship], responses=described("subgraph", tabular=True))
async def subgraph(request: SubgraphRequest, meter: MeterDependency) -> Response:
    """Grouped transfers among the addresses, of indexed tokens and of the context token."""
    if request.context_token_key is not None:
        await check_tokens(meter.backend, {("body", "context_token_key"): request.context_token_key})
    return await meter.answer(request, answers.relationships, tabular=True)
