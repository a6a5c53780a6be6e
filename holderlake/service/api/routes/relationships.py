"""Relationships among addresses that the caller names."""

from __future__ import annotations

from fastapi import APIRouter, Response

from contract.models import Relationship
from contract.requests import SubgraphRequest
from service import answers
from service.metering import MeteredRoute, MeterOfCall
from service.openapi import described
from service.queries import check_tokens

router = APIRouter(prefix="/v0/relationships", tags=["relationships"], route_class=MeteredRoute)


@router.post("/subgraph", response_model=list[Relationship], responses=described("subgraph", tabular=True))
async def subgraph(request: SubgraphRequest, meter: MeterOfCall) -> Response:
    """All grouped transfers among the addresses, of indexed tokens and of the context token."""
    if request.context_token_key is not None:
        await check_tokens(meter.backend, {("body", "context_token_key"): request.context_token_key})
    return await meter.answer(request, answers.relationships, tabular=True)
