"""Endpoints beyond the contract: pages of holders, links of clusters, NFT items, labels, usage, rules."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from holderlake.core.contract import exact_json
from holderlake.core.contract.models import Address
from holderlake.core.contract.rules import MapRules
from holderlake.engine.catalog.rules import rules_in_force
from holderlake.service.api import extra_answers as answers
from holderlake.service.api.backend import Backend
from holderlake.service.api.metering import CustomPlanRoute, MeterDependency, MeteredRoute
from holderlake.service.api.parameters import PathToken
from holderlake.service.billing.keys import Key
from holderlake.service.extra_models import (
    AddressItems,
    AddressLabels,
    Evidence,
    HoldersPage,
    ItemHolders,
    OwnerClusters,
    Usage,
    VerifiedTokens,
)
from holderlake.service.extra_requests import (
    AddressItemsOptions,
    AddressItemsRequest,
    EvidenceOptions,
    EvidenceRequest,
    HoldersPageRequest,
    ItemOptions,
    ItemRequest,
    LabelsRequest,
    OwnersOptions,
    OwnersRequest,
    PageOptions,
)
from holderlake.service.output.openapi import described

router = APIRouter(prefix="/v0/x", tags=["beyond the contract"], route_class=MeteredRoute)
custom = APIRouter(prefix="/v0/x", tags=["beyond the contract"], route_class=CustomPlanRoute)

_OF_ONE_TOKEN = ("unsupported_token", "no_holders", "unknown_token")


@router.get(
    "/tokens/holders/{chain}/{token_address}",
    response_model=HoldersPage,
    responses=described("x_holders", "unknown_cursor", *_OF_ONE_TOKEN, tabular=True),
)
async def x_holders(token: PathToken, options: Annotated[PageOptions, Query()], meter: MeterDependency) -> Response:
    """All holders by rank, in pages as of one instant, with exact raw amounts."""
    request = HoldersPageRequest(chain=token.chain, token_address=token.address, options=options)
    compute = partial(answers.holders, secret=meter.backend.keys.secret)
    return await meter.answer(request, compute, cacheable=True, tabular=True)


@router.get(
    "/tokens/evidence/{chain}/{token_address}",
    response_model=Evidence,
    responses=described("x_evidence", "unknown_cluster", *_OF_ONE_TOKEN, tabular=True),
)
async def x_evidence(
    token: PathToken, options: Annotated[EvidenceOptions, Query()], meter: MeterDependency
) -> Response:
    """The transfers that link the members of each cluster, strongest link first."""
    request = EvidenceRequest(chain=token.chain, token_address=token.address, options=options)
    return await meter.answer(request, answers.evidence, cacheable=True, tabular=True)


@router.get(
    "/tokens/clusters/{chain}/{token_address}",
    response_model=OwnerClusters,
    responses=described("x_clusters", "no_entities", *_OF_ONE_TOKEN, tabular=True),
)
async def x_clusters(token: PathToken, options: Annotated[OwnersOptions, Query()], meter: MeterDependency) -> Response:
    """The holders that probably have one owner, by evidence of several kinds, with the links and their confidence."""
    request = OwnersRequest(chain=token.chain, token_address=token.address, options=options)
    return await meter.answer(request, answers.owners, tabular=True)


@router.get(
    "/tokens/items/{chain}/{token_address}",
    response_model=ItemHolders,
    responses=described("x_item", "no_holders", "unknown_token", tabular=True),
)
async def x_item(token: PathToken, options: Annotated[ItemOptions, Query()], meter: MeterDependency) -> Response:
    """The holders of one NFT token id (ERC-721, ERC-1155), largest quantity first."""
    request = ItemRequest(chain=token.chain, token_address=token.address, options=options)
    return await meter.answer(request, answers.item, cacheable=True, tabular=True)


@router.get(
    "/addresses/items/{address}",
    response_model=AddressItems,
    responses=described("x_address_items", "not_found", tabular=True),
)
async def x_address_items(
    address: Address, options: Annotated[AddressItemsOptions, Query()], meter: MeterDependency
) -> Response:
    """The NFT token ids that an address held, in pages, sorted by chain, token and id."""
    request = AddressItemsRequest(address=address, options=options)
    return await meter.answer(request, answers.address_items, tabular=True)


@custom.get(
    "/addresses/labels/{address}",
    response_model=AddressLabels,
    responses=described("x_labels", "plan_required", "not_found"),
)
async def x_labels(address: Address, meter: MeterDependency) -> Response:
    """The labels of an address by source; address metadata combines them."""
    return await meter.answer(LabelsRequest(address=address), answers.labels)


@router.get("/usage", response_model=Usage, responses=described("x_usage", metered=False))
async def x_usage(meter: MeterDependency) -> Response:
    """The charges of your key this month, by day and endpoint. Free."""
    plain = await run_in_threadpool(_usage, meter.backend, meter.key)
    headers = {"Cache-Control": "private, no-store"}
    return Response(exact_json.encode(plain), media_type="application/json", headers=headers)


@router.get("/rules", response_model=MapRules, responses=described("x_rules", metered=False))
async def x_rules(meter: MeterDependency) -> Response:
    """The rules of classification that all maps of this service follow. Free."""
    return Response(exact_json.encode(rules_in_force(meter.backend.store.rules)), media_type="application/json")


@router.get("/verified", response_model=VerifiedTokens, responses=described("x_verified", metered=False))
async def x_verified(meter: MeterDependency) -> Response:
    """The tokens whose transfers were compared with a node, and the result. Free."""
    plain = await run_in_threadpool(answers.verified, meter.backend.store)
    return Response(exact_json.encode(plain), media_type="application/json")


def _usage(backend: Backend, key: Key) -> dict[str, Any]:
    month = backend.keys.balance(key.id)
    charged = backend.keys.usage(prefix=key.prefix)
    return {
        "allowance": month.allowance,
        "spent": month.spent,
        "reserved": month.reserved,
        "remaining": month.remaining,
        "renews_on": month.renews_on.isoformat(),
        "charged": [
            {
                "day": line.day.isoformat(),
                "endpoint": line.endpoint,
                "requests": line.requests,
                "hundredths": line.credits,
            }
            for line in charged
        ],
    }
