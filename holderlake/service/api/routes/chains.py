"""The list of supported chains."""

from __future__ import annotations

from fastapi import APIRouter, Response

from holderlake.core.contract.models import Chain
from holderlake.core.contract.requests import ChainsRequest
from holderlake.service.api import answers
from holderlake.service.api.metering import MeterDependency, MeteredRoute
from holderlake.service.output.openapi import described

router = APIRouter(prefix="/v0/chains", tags=["chains"], route_class=MeteredRoute)


@router.get("", response_model=list[Chain], responses=described("chains", tabular=True))
async def chains(meter: MeterDependency) -> Response:
    """The supported chains."""
    return await meter.answer(ChainsRequest(), answers.chains, tabular=True)
