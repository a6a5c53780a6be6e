"""What our own service answers beyond the contract, under ``/v0/x/``: objects and requests, in the contract's style.

No other provider has these; the pipeline never needs them. Raw amounts are integers as text.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from holderlake.contract import prices
from holderlake.contract.models import (
    Address,
    ChainId,
    GroupedTransferData,
    Holder,
    HolderLimit,
    Model,
    PlainInteger,
    RawAmount,
    Share,
)
from holderlake.contract.requests import Request, TokenRequest, query_text

X_TOKENS = "/v0/x/tokens"
MAX_PAGE = 10_000
MAX_CHANGES = 10_000
MAX_OFFSET = 10_000_000
MAX_TRANSFERS_OF_LINK = 100

UnixSeconds = Annotated[int, Field(ge=0, le=253_402_300_799, description="Unix seconds, UTC."), PlainInteger]


TokenId = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{1,78}$"), AfterValidator(lambda text: text.lstrip("0") or "0")
]
"""An item of an NFT: a decimal integer of up to 256 bits, without leading zeros once it is read."""


class HoldersPage(Model):
    """Holders by rank from where the page before ended, all as of one instant; no cursor on the last page."""

    as_of: int
    holders: list[Holder]
    next_cursor: str | None = None


class Transfer(Model):
    """One transfer as the chain has it."""

    tx_hash: str | None = None
    block_number: int
    timestamp: int
    log_index: int
    token_id: RawAmount | None = None
    value_raw: RawAmount


class EvidenceLink(Model):
    """A link that ties two members of a cluster, or a member and a time node; ``strength`` 1 is the strongest of its
    cluster. ``time_node`` is the number of that time node on the map (its place in ``nodes.time_nodes``, from 1): two
    members with links to the same one used the exchange in the same window. It is null between members."""

    strength: int = Field(ge=1)
    from_address: str
    from_kind: Literal["holder", "magic", "time"]
    to_address: str
    to_kind: Literal["holder", "magic", "time"]
    time_node: int | None = Field(default=None, ge=1)
    token_symbol: str
    data: GroupedTransferData
    transfers: list[Transfer]


class ClusterEvidence(Model):
    """Why a cluster is one; ``cluster_id`` is its place on the map, 1 the largest."""

    cluster_id: int = Field(ge=1)
    links: list[EvidenceLink]


class Evidence(Model):
    """The evidence of a map's clusters."""

    as_of: int
    clusters: list[ClusterEvidence]


class ChangeCounts(Model):
    """Over all holders of the two instants."""

    entered: int
    left: int
    up: int
    down: int
    unchanged: int
    holders_before: int
    holders_after: int


class HolderChange(Model):
    """A holder whose balance is another one; what it had not is null."""

    address: str
    change: Literal["entered", "left", "up", "down"]
    amount_before_raw: RawAmount
    amount_after_raw: RawAmount
    amount_change_raw: RawAmount
    rank_before: int | None
    rank_after: int | None
    share_before: Share
    share_after: Share


class ClusterChange(Model):
    """What became of clusters, by the holders that they share: ids on the map before and on the map after."""

    change: Literal["born", "died", "same", "grew", "shrank", "changed", "merged", "split"]
    clusters_before: list[int]
    clusters_after: list[int]
    share_before: Share
    share_after: Share
    holders_before: int
    holders_after: int
    shared_holders: int


class MapChanges(Model):
    """What changed on a token's map between two instants."""

    before: int
    after: int
    counts: ChangeCounts
    holders: list[HolderChange]
    clusters: list[ClusterChange]


class SourceLabel(Model):
    """What one source says of an address; ``chain`` is null where it does not tell. A higher precedence wins."""

    source: str
    chain: str | None
    label: str | None
    entity_id: str | None
    is_cex: bool
    is_dex: bool
    is_contract: bool
    is_paid_label: bool
    precedence: int


class AddressLabels(Model):
    """All labels of an address with where they come from."""

    address: str
    labels: list[SourceLabel]


class UsageLine(Model):
    """What was charged on a day at an endpoint; ``credits`` in hundredths."""

    day: str
    endpoint: str
    requests: int
    hundredths: int


class Usage(Model):
    """The caller's own month, in hundredths of a credit, and what was charged by day and endpoint."""

    allowance: int
    spent: int
    reserved: int
    remaining: int
    renews_on: str
    charged: list[UsageLine]


class ItemHolder(Model):
    """A holder of an item; ``since`` is the latest transfer that changed the quantity."""

    address: str
    quantity: RawAmount
    since: int


class ItemHolders(Model):
    """Who held an item of an NFT; ``total`` counts all holders, of which the largest are listed."""

    as_of: int
    token_id: RawAmount
    total: int
    holders: list[ItemHolder]


class HeldItem(Model):
    """An item that an address held; ``since`` is the latest transfer that changed the quantity."""

    chain: str
    token_address: str
    token_id: RawAmount
    quantity: RawAmount
    since: int


class AddressItems(Model):
    """A page of the items that an address held, by chain, token and item; no next offset on the last page."""

    as_of: int
    address: str
    total: int
    items: list[HeldItem]
    next_offset: int | None = None


class MapRules(Model):
    """The rules that maps follow. Figures of maps can be compared where these and the maps' options are equal."""

    supernode_degree: int = Field(ge=1, description="Distinct counterparties that make a supernode.")
    hypernode_transfers: int = Field(ge=0, description="A hypernode has more transfers than this.")
    magic_links: int = Field(ge=1, description="Shown holders that a magic node is linked to, at least.")
    magic_limit: int = Field(ge=0, description="Magic nodes of a map, at most.")
    time_window: int = Field(ge=1, description="Seconds of a time node.")
    time_links: int = Field(ge=1, description="Shown holders that share a time node, at least.")
    time_wallets: int = Field(ge=1, description="Counterparties of the exchange in the window of a time node, at most.")
    time_limit: int = Field(ge=0, description="Time nodes of a map, at most.")
    fresh_wallet_seconds: int = Field(ge=0, description="Age under which a wallet is fresh.")
    time_allowed: list[str] = Field(description="Contracts that make time nodes as exchanges do.")
    score_version: int = Field(ge=1, description="Version of the service score: its formula and its entities.")


class PageOptions(BaseModel):
    """Query parameters of the pages of holders."""

    model_config = ConfigDict(frozen=True)

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


class EvidenceOptions(BaseModel):
    """Query parameters of the clusters' evidence."""

    model_config = ConfigDict(frozen=True)

    limit: HolderLimit = Field(default=80, description="Number of top holders of the map.")
    use_magic_nodes: bool = Field(default=True, description="Let magic nodes tie holders together.")
    use_time_nodes: bool = Field(default=True, description="Let time nodes tie holders together.")
    cluster: Annotated[int, Field(ge=1, le=500), PlainInteger] | None = Field(
        default=None, description="Only this cluster; 1 is the largest."
    )
    transfers: Annotated[int, Field(ge=0, le=MAX_TRANSFERS_OF_LINK), PlainInteger] = Field(
        default=5, description="Most transfers to show of each link."
    )
    timestamp: UnixSeconds | None = Field(default=None, description="Unix seconds: as of that past date (surcharge).")


class ChangesOptions(BaseModel):
    """Query parameters of what changed between two instants."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    before: UnixSeconds = Field(description="Unix seconds of the earlier instant; two in the wrong order are swapped.")
    after: UnixSeconds | None = Field(default=None, description="Unix seconds of the later instant; now by default.")
    limit: HolderLimit = Field(default=80, description="Number of top holders of both maps.")
    use_time_nodes: bool = Field(default=True, description="Let time nodes tie holders together, on both maps.")
    changes: Annotated[int, Field(ge=1, le=MAX_CHANGES), PlainInteger] = Field(
        default=100, description="Most changed holders to return."
    )


class ItemOptions(BaseModel):
    """Query parameters of who held an item."""

    model_config = ConfigDict(frozen=True)

    token_id: TokenId = Field(description="The item: a decimal integer, up to 2^256 - 1.")
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE), PlainInteger] = Field(
        default=1_000, description="Most holders to return; an ERC-721 item has one."
    )
    timestamp: UnixSeconds | None = Field(default=None, description="Unix seconds: as of that past date (surcharge).")


class AddressItemsOptions(BaseModel):
    """Query parameters of the items of an address."""

    model_config = ConfigDict(frozen=True)

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
    """GET /v0/x/tokens/holders/{chain}/{token_address}"""

    endpoint: ClassVar[str] = "x_holders"
    root: ClassVar[str] = X_TOKENS
    kind: ClassVar[str] = "holders"
    answer: ClassVar[Any] = HoldersPage

    options: PageOptions = PageOptions()

    @property
    def query(self) -> dict[str, str]:
        return query_text(self.options)

    @property
    def cost(self) -> int:
        options = self.options
        return (
            prices.PAGE_BASE
            + prices.PAGE_HUNDRED * -(-options.limit // 100)
            + prices.HOLDERS_METADATA * options.return_metadata
            + prices.HISTORY * (options.timestamp is not None)
        )


class EvidenceRequest(TokenRequest):
    """GET /v0/x/tokens/evidence/{chain}/{token_address}"""

    endpoint: ClassVar[str] = "x_evidence"
    root: ClassVar[str] = X_TOKENS
    kind: ClassVar[str] = "evidence"
    answer: ClassVar[Any] = Evidence

    options: EvidenceOptions = EvidenceOptions()

    @property
    def query(self) -> dict[str, str]:
        return query_text(self.options)

    @property
    def cost(self) -> int:
        options = self.options
        return prices.EVIDENCE + prices.MAP_LIMIT[options.limit] + prices.HISTORY * (options.timestamp is not None)


class ChangesRequest(TokenRequest):
    """GET /v0/x/tokens/changes/{chain}/{token_address}"""

    endpoint: ClassVar[str] = "x_changes"
    root: ClassVar[str] = X_TOKENS
    kind: ClassVar[str] = "changes"
    answer: ClassVar[Any] = MapChanges

    options: ChangesOptions

    @property
    def query(self) -> dict[str, str]:
        return query_text(self.options)

    @property
    def cost(self) -> int:
        return prices.CHANGES + 2 * prices.MAP_LIMIT[self.options.limit]


class LabelsRequest(Request):
    """GET /v0/x/addresses/labels/{address}"""

    endpoint: ClassVar[str] = "x_labels"
    answer: ClassVar[Any] = AddressLabels

    address: Address

    @property
    def path(self) -> str:
        return f"/v0/x/addresses/labels/{quote(self.address, safe='')}"

    @property
    def cost(self) -> int:
        return prices.LABELS


class RulesRequest(Request):
    """GET /v0/x/rules"""

    endpoint: ClassVar[str] = "x_rules"
    answer: ClassVar[Any] = MapRules

    @property
    def path(self) -> str:
        return "/v0/x/rules"

    @property
    def cost(self) -> int:
        return 0


class ItemRequest(TokenRequest):
    """GET /v0/x/tokens/items/{chain}/{token_address}"""

    endpoint: ClassVar[str] = "x_item"
    root: ClassVar[str] = X_TOKENS
    kind: ClassVar[str] = "items"
    answer: ClassVar[Any] = ItemHolders

    options: ItemOptions

    @property
    def query(self) -> dict[str, str]:
        return query_text(self.options)

    @property
    def cost(self) -> int:
        return prices.ITEM + prices.HISTORY * (self.options.timestamp is not None)


class AddressItemsRequest(Request):
    """GET /v0/x/addresses/items/{address}"""

    endpoint: ClassVar[str] = "x_address_items"
    answer: ClassVar[Any] = AddressItems

    address: Address
    options: AddressItemsOptions = AddressItemsOptions()

    @property
    def path(self) -> str:
        return f"/v0/x/addresses/items/{quote(self.address, safe='')}"

    @property
    def query(self) -> dict[str, str]:
        return query_text(self.options)

    @property
    def cost(self) -> int:
        options = self.options
        pages = prices.PAGE_BASE + prices.PAGE_HUNDRED * -(-options.limit // 100)
        return pages + prices.HISTORY * (options.timestamp is not None)
