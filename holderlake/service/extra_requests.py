"""The requests of our own routes under ``/v0/x/``: their options, paths and prices.

Their answers are in ``extra_models``. Other providers do not have these routes, and no pipeline needs them.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, Field, StringConstraints

from holderlake.core.contract import prices
from holderlake.core.contract.models import Address, ChainId, HolderLimit, PlainInteger
from holderlake.core.contract.requests import Options, Request, TokenRequest
from holderlake.service.extra_models import (
    AddressItems,
    AddressLabels,
    Evidence,
    HoldersPage,
    ItemHolders,
    OwnerClusters,
)

MAX_PAGE = 10_000
MAX_OFFSET = 10_000_000
MAX_TRANSFERS_OF_LINK = 100

_PAGE_BASE: Final = 1 * prices.CREDIT
_PAGE_HUNDRED: Final = 5 * prices.CREDIT
"""Price of 100 holders of a page (rounded up). A holder has the same price as in a list of 500 holders."""
_EVIDENCE: Final = 50 * prices.CREDIT
_LABELS: Final = 1 * prices.CREDIT
_ITEM: Final = 1 * prices.CREDIT

UnixSeconds = Annotated[int, Field(ge=0, le=253_402_300_799, description="Unix seconds, UTC."), PlainInteger]
TokenId = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{1,78}$"), AfterValidator(lambda text: text.lstrip("0") or "0")
]
"""The token id of an NFT (ERC-721 or ERC-1155): a decimal integer of up to 256 bits, without leading zeros."""


class PageOptions(Options):
    """Query parameters of the request for a page of holders."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE), PlainInteger] = Field(
        default=1_000, description="Holders a page; each started 100 costs."
    )
    return_metadata: bool = Field(default=False, description="Return labels and metadata (surcharge).")
    timestamp: UnixSeconds | None = Field(default=None, description="Unix seconds: as of that past date (surcharge).")
    cursor: str | None = Field(
        default=None,
        max_length=512,
        pattern="^[A-Za-z0-9_-]+$",
        description="`next_cursor` of the page before, which also keeps its instant.",
    )


class EvidenceOptions(Options):
    """Query parameters of the request for the transfers that link the members of clusters (evidence)."""

    limit: HolderLimit = Field(default=80, description="Number of top holders of the map.")
    use_magic_nodes: bool = Field(default=True, description="Let magic nodes tie holders together.")
    use_time_nodes: bool = Field(default=True, description="Let time nodes tie holders together.")
    cluster: Annotated[int, Field(ge=1, le=500), PlainInteger] | None = Field(
        default=None, description="Only this cluster; 1 is the largest."
    )
    transfers: Annotated[int, Field(ge=0, le=MAX_TRANSFERS_OF_LINK), PlainInteger] = Field(
        default=5, description="Maximum transfers to show of each link."
    )
    timestamp: UnixSeconds | None = Field(default=None, description="Unix seconds: as of that past date (surcharge).")


class OwnersOptions(Options):
    """Query parameters of the request for the clusters of holders with one owner."""

    limit: HolderLimit = Field(default=80, description="Number of top holders.")
    confidence: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.8, description="Minimum confidence of a join; lower than that of the search has no effect."
    )
    links: Annotated[int, Field(ge=0, le=MAX_TRANSFERS_OF_LINK), PlainInteger] = Field(
        default=5, description="Maximum links to show of each holder."
    )
    timestamp: UnixSeconds | None = Field(default=None, description="Unix seconds: as of that past date (surcharge).")


class ItemOptions(Options):
    """Query parameters of the request for the holders of one NFT token id."""

    token_id: TokenId = Field(description="The item: a decimal integer, up to 2^256 - 1.")
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE), PlainInteger] = Field(
        default=1_000, description="Maximum holders to return; an ERC-721 item has one."
    )
    timestamp: UnixSeconds | None = Field(default=None, description="Unix seconds: as of that past date (surcharge).")


class AddressItemsOptions(Options):
    """Query parameters of the request for the NFT token ids that an address held."""

    chain: ChainId | None = Field(default=None, description="Only items of this chain.")
    token_address: Address | None = Field(default=None, description="Only items of this token.")
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE), PlainInteger] = Field(
        default=1_000, description="Items a page; each started 100 costs."
    )
    offset: Annotated[int, Field(ge=0, le=MAX_OFFSET), PlainInteger] = Field(
        default=0, description="`next_offset` of the page before; give its `as_of` as `timestamp`."
    )
    timestamp: UnixSeconds | None = Field(default=None, description="Unix seconds: as of that past date (surcharge).")


class HoldersPageRequest(TokenRequest):
    """GET /v0/x/tokens/holders/{chain}/{token_address}: a page of all holders."""

    endpoint: ClassVar[str] = "x_holders"
    route: ClassVar[str] = "/v0/x/tokens/holders/{chain}/{token_address}"
    answer: ClassVar[Any] = HoldersPage

    options: PageOptions = PageOptions()

    @property
    def cost(self) -> int:
        options = self.options
        return (
            _PAGE_BASE
            + _PAGE_HUNDRED * -(-options.limit // 100)
            + prices.HOLDERS_METADATA * options.return_metadata
            + prices.HISTORY * (options.timestamp is not None)
        )


class EvidenceRequest(TokenRequest):
    """GET /v0/x/tokens/evidence/{chain}/{token_address}: the transfers that link the members of clusters."""

    endpoint: ClassVar[str] = "x_evidence"
    route: ClassVar[str] = "/v0/x/tokens/evidence/{chain}/{token_address}"
    answer: ClassVar[Any] = Evidence

    options: EvidenceOptions = EvidenceOptions()

    @property
    def cost(self) -> int:
        options = self.options
        return _EVIDENCE + prices.MAP_LIMIT[options.limit] + prices.HISTORY * (options.timestamp is not None)


class OwnersRequest(TokenRequest):
    """GET /v0/x/tokens/clusters/{chain}/{token_address}: the clusters of holders that probably have one owner."""

    endpoint: ClassVar[str] = "x_clusters"
    route: ClassVar[str] = "/v0/x/tokens/clusters/{chain}/{token_address}"
    answer: ClassVar[Any] = OwnerClusters

    options: OwnersOptions = OwnersOptions()

    @property
    def cost(self) -> int:
        options = self.options
        return _EVIDENCE + prices.MAP_LIMIT[options.limit] + prices.HISTORY * (options.timestamp is not None)


class LabelsRequest(Request):
    """GET /v0/x/addresses/labels/{address}: all labels of an address."""

    endpoint: ClassVar[str] = "x_labels"
    route: ClassVar[str] = "/v0/x/addresses/labels/{address}"
    price: ClassVar[int] = _LABELS
    answer: ClassVar[Any] = AddressLabels

    address: Address


class ItemRequest(TokenRequest):
    """GET /v0/x/tokens/items/{chain}/{token_address}: the holders of one NFT token id."""

    endpoint: ClassVar[str] = "x_item"
    route: ClassVar[str] = "/v0/x/tokens/items/{chain}/{token_address}"
    answer: ClassVar[Any] = ItemHolders

    options: ItemOptions

    @property
    def cost(self) -> int:
        return _ITEM + prices.HISTORY * (self.options.timestamp is not None)


class AddressItemsRequest(Request):
    """GET /v0/x/addresses/items/{address}: the NFT token ids that an address held."""

    endpoint: ClassVar[str] = "x_address_items"
    route: ClassVar[str] = "/v0/x/addresses/items/{address}"
    answer: ClassVar[Any] = AddressItems

    address: Address
    options: AddressItemsOptions = AddressItemsOptions()

    @property
    def cost(self) -> int:
        options = self.options
        pages = _PAGE_BASE + _PAGE_HUNDRED * -(-options.limit // 100)
        return pages + prices.HISTORY * (options.timestamp is not None)
