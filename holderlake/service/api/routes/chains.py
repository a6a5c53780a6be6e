"""The list of supported chains."""

from __future__ import annotations

from fastapi import APIRouter, Response

from contract.models import Chain
from contract.requests import ChainsRequest
from service import answers
from service.metering import MeteredRoute, MeterOfCall
from service.openapi import described

router = APIRouter(prefix="/v0/chains", tags=["chains"], route_class=MeteredRoute)


@router.get("", response_model=list[Chain], responses=described("chains", tabular=True))
async def chains(meter: MeterOfCall) -> Response:
    """The chains that tokens can be asked about."""
    return await meter.answer(ChainsRequest(), answers.chains, tabular=True)
