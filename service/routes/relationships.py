"""Relationships among addresses that the caller names."""

from __future__ import annotations

from fastapi import APIRouter, Response

from contract.models import Relationship
from contract.requests import SubgraphRequest
from service import answers
from service.errors import error_models
from service.metering import MeteredRoute, MeterOfCall

router = APIRouter(prefix="/v0/relationships", tags=["relationships"], route_class=MeteredRoute)


@router.post("/subgraph", response_model=list[Relationship], responses=error_models("body_too_large"))
def subgraph(request: SubgraphRequest, meter: MeterOfCall) -> Response:
    """All grouped transfers among the addresses, of indexed tokens and of the context token."""
    return meter.answer(request, answers.relationships)
