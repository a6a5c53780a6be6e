"""Metadata of addresses; part of custom plans only."""

from __future__ import annotations

from fastapi import APIRouter, Response

from holderlake.core.contract.models import Address, AddressMetadata
from holderlake.core.contract.requests import AddressesMetadataRequest, AddressMetadataRequest
from holderlake.service.api import answers
from holderlake.service.api.metering import CustomPlanRoute, MeterDependency
from holderlake.service.output.openapi import described

router = APIRouter(prefix="/v0/addresses/metadata", tags=["addresses"], route_class=CustomPlanRoute)


@router.get(
    "/{address}",
    response_model=AddressMetadata,
    responses=described("address_metadata", "plan_required", "not_found"),
)
async def address_metadata(address: Address, meter: MeterDependency) -> Response:
    """Labels, kind and relations of an address."""
    return await meter.answer(AddressMetadataRequest(address=address), answers.address_metadata)


@router.post(
    "", response_model=list[AddressMetadata], responses=described("addresses_metadata", "plan_required", tabular=True)
)
async def addresses_metadata(request: AddressesMetadataRequest, meter: MeterDependency) -> Response:
    """Labels, kind and relations of many addresses, in the order of the request."""
    return await meter.answer(request, answers.addresses_metadata, tabular=True)
