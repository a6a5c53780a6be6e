"""What is known of addresses. Part of custom plans only."""

from __future__ import annotations

from fastapi import APIRouter, Response

from contract.models import Address, AddressMetadata
from contract.requests import AddressesMetadataRequest, AddressMetadataRequest
from service import answers
from service.errors import error_models
from service.metering import CustomPlanRoute, MeterOfCall

router = APIRouter(prefix="/v0/addresses/metadata", tags=["addresses"], route_class=CustomPlanRoute)


@router.get("/{address}", response_model=AddressMetadata, responses=error_models("plan_required"))
def address_metadata(address: Address, meter: MeterOfCall) -> Response:
    """Labels, kind and relations of an address."""
    return meter.answer(AddressMetadataRequest(address=address), answers.address_metadata)


@router.post("", response_model=list[AddressMetadata], responses=error_models("plan_required", "body_too_large"))
def addresses_metadata(request: AddressesMetadataRequest, meter: MeterOfCall) -> Response:
    """Labels, kind and relations of many addresses, in the order asked for."""
    return meter.answer(request, answers.addresses_metadata)
