"""Every request of the API as plain data: how it is sent, what it costs, and what its answer is.

One definition serves all: the service reads its options from these models, the client sends them, the planner and
the ledger price them, the archive finds answers by them. Source: contract section "Endpoints".
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from holderlake.contract import prices
from holderlake.contract.models import (
    Address,
    AddressMetadata,
    Chain,
    ChainId,
    Holder,
    HolderLimit,
    Map,
    Metrics,
    PlainInteger,
    Relationship,
    Screenshot,
    Token,
    TokenKey,
)

MAX_SUBGRAPH_ADDRESSES = 1_000
MAX_METADATA_ADDRESSES = 2_500
MAX_METADATA_TOKENS = 1_000

_Timestamp = Annotated[int, Field(ge=0), PlainInteger]

_TIME_NODES: Final = (
    "Link wallets that used the same exchange in the same time window, in relationships, score and clusters. "
    "With false, only transfers link wallets."
)


class Request(BaseModel):
    """Base of all requests: GET unless it has a body. Unknown fields are refused, so that a misspelt one is found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: ClassVar[str]
    method: ClassVar[str] = "GET"
    answer: ClassVar[Any]
    """The type that the answer's JSON is read into."""

    @property
    def path(self) -> str:
        """The path below the base address, every part percent-encoded."""
        raise NotImplementedError

    @property
    def query(self) -> dict[str, str]:
        """Query parameters as sent; those at their default are left out."""
        return {}

    @property
    def body(self) -> Any:
        """The JSON body, or None."""
        return None

    @property
    def cost(self) -> int:
        """Hundredths of a credit that a 2xx answer is charged."""
        raise NotImplementedError

    @property
    def subject(self) -> str | None:
        """The token that the request is about (``chain/address``), for ledgers and reports."""
        return None


def query_text(options: BaseModel) -> dict[str, str]:
    """Options as a query string carries them; those at their default are left out."""
    changed = options.model_dump(exclude_defaults=True)
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in changed.items()}


class MapOptions(BaseModel):
    """Query parameters of the map endpoint."""

    model_config = ConfigDict(frozen=True)

    limit: HolderLimit = Field(default=80, description="Number of top holders; 250 and 500 carry a surcharge.")
    use_magic_nodes: bool = Field(default=True, description="Add nodes that tie shown holders together.")
    use_time_nodes: bool = Field(default=True, description=_TIME_NODES)
    return_nodes: bool = Field(default=False, description="Return nodes with labels and metadata (surcharge).")
    return_relationships: bool = Field(default=False, description="Return the grouped transfers between nodes.")
    return_clusters: bool = Field(default=True, description="Return the clusters.")
    return_decentralization_score: bool = Field(default=True, description="Compute the score; else it is null.")
    refresh: bool = Field(default=False, description="Force a cache refresh (surcharge).")
    timestamp: _Timestamp | None = Field(
        default=None, description="Unix seconds: the map as of that past date (surcharge)."
    )
    return_raw_amounts: bool = Field(default=False, description="Add exact raw integers as text (our extension).")


class HoldersOptions(BaseModel):
    """Query parameters of the holders endpoint."""

    model_config = ConfigDict(frozen=True)

    limit: HolderLimit = Field(default=80, description="Number of holders; 250 and 500 carry a surcharge.")
    return_metadata: bool = Field(default=False, description="Return labels and metadata (surcharge).")
    refresh: bool = Field(default=False, description="Force a cache refresh (surcharge).")
    timestamp: _Timestamp | None = Field(
        default=None, description="Unix seconds: the holders as of that past date (surcharge)."
    )
    return_raw_amounts: bool = Field(default=False, description="Add exact raw integers as text (our extension).")


class ChainsRequest(Request):
    """GET /v0/chains"""

    endpoint: ClassVar[str] = "chains"
    answer: ClassVar[Any] = list[Chain]

    @property
    def path(self) -> str:
        return "/v0/chains"

    @property
    def cost(self) -> int:
        return prices.CHAINS


class TokenRequest(Request):
    """Base of the requests about one token."""

    root: ClassVar[str] = "/v0/tokens"
    kind: ClassVar[str]

    chain: ChainId
    token_address: Address

    @property
    def path(self) -> str:
        return f"{self.root}/{self.kind}/{quote(self.chain, safe='')}/{quote(self.token_address, safe='')}"

    @property
    def subject(self) -> str:
        return f"{self.chain}/{self.token_address}"


class MapRequest(TokenRequest):
    """GET /v0/tokens/map/{chain}/{token_address}"""

    endpoint: ClassVar[str] = "map"
    kind: ClassVar[str] = "map"
    answer: ClassVar[Any] = Map

    options: MapOptions = MapOptions()

    @property
    def query(self) -> dict[str, str]:
        return query_text(self.options)

    @property
    def cost(self) -> int:
        options = self.options
        return (
            prices.MAP_BASE
            + prices.MAP_LIMIT[options.limit]
            + prices.MAP_NODES * options.return_nodes
            + prices.REFRESH * options.refresh
            + prices.HISTORY * (options.timestamp is not None)
        )


class HoldersRequest(TokenRequest):
    """GET /v0/tokens/holders/{chain}/{token_address}"""

    endpoint: ClassVar[str] = "holders"
    kind: ClassVar[str] = "holders"
    answer: ClassVar[Any] = list[Holder]

    options: HoldersOptions = HoldersOptions()

    @property
    def query(self) -> dict[str, str]:
        return query_text(self.options)

    @property
    def cost(self) -> int:
        options = self.options
        return (
            prices.HOLDERS_BASE
            + prices.HOLDERS_LIMIT[options.limit]
            + prices.HOLDERS_METADATA * options.return_metadata
            + prices.REFRESH * options.refresh
            + prices.HISTORY * (options.timestamp is not None)
        )


class MetricsRequest(TokenRequest):
    """GET /v0/tokens/metrics/{chain}/{token_address}"""

    endpoint: ClassVar[str] = "metrics"
    kind: ClassVar[str] = "metrics"
    answer: ClassVar[Any] = Metrics

    @property
    def cost(self) -> int:
        return prices.METRICS


class ScreenshotRequest(TokenRequest):
    """GET /v0/tokens/screenshot/{chain}/{token_address}"""

    endpoint: ClassVar[str] = "screenshot"
    kind: ClassVar[str] = "screenshot"
    answer: ClassVar[Any] = Screenshot

    @property
    def cost(self) -> int:
        return prices.SCREENSHOT


class TokenMetadataRequest(TokenRequest):
    """GET /v0/tokens/metadata/{chain}/{token_address}"""

    endpoint: ClassVar[str] = "token_metadata"
    kind: ClassVar[str] = "metadata"
    answer: ClassVar[Any] = Token

    return_token_stats: bool = False

    @property
    def query(self) -> dict[str, str]:
        return {"return_token_stats": "true"} if self.return_token_stats else {}

    @property
    def cost(self) -> int:
        return prices.TOKEN_METADATA_WITH_STATS if self.return_token_stats else prices.TOKEN_METADATA


class TokensMetadataRequest(Request):
    """POST /v0/tokens/metadata: a bare array of token keys."""

    endpoint: ClassVar[str] = "tokens_metadata"
    method: ClassVar[str] = "POST"
    answer: ClassVar[Any] = list[Token]

    tokens: tuple[TokenKey, ...] = Field(max_length=MAX_METADATA_TOKENS)
    return_token_stats: bool = False

    @property
    def path(self) -> str:
        return "/v0/tokens/metadata"

    @property
    def query(self) -> dict[str, str]:
        return {"return_token_stats": "true"} if self.return_token_stats else {}

    @property
    def body(self) -> list[dict[str, str]]:
        return [{"chain": token.chain, "address": token.address} for token in self.tokens]

    @property
    def cost(self) -> int:
        each = prices.TOKEN_METADATA_WITH_STATS if self.return_token_stats else prices.TOKEN_METADATA
        return each * len(self.tokens)


class SearchRequest(Request):
    """GET /v0/tokens/search"""

    endpoint: ClassVar[str] = "search"
    answer: ClassVar[Any] = list[Token]

    text: str = Field(min_length=2, max_length=256)

    @property
    def path(self) -> str:
        return "/v0/tokens/search"

    @property
    def query(self) -> dict[str, str]:
        return {"query": self.text}

    @property
    def cost(self) -> int:
        return prices.SEARCH


class SubgraphRequest(Request):
    """POST /v0/relationships/subgraph"""

    endpoint: ClassVar[str] = "subgraph"
    method: ClassVar[str] = "POST"
    answer: ClassVar[Any] = list[Relationship]

    addresses: tuple[Address, ...] = Field(min_length=2, max_length=MAX_SUBGRAPH_ADDRESSES)
    context_token_key: TokenKey | None = None

    @property
    def path(self) -> str:
        return "/v0/relationships/subgraph"

    @property
    def body(self) -> dict[str, Any]:
        context = self.context_token_key
        return {
            "addresses": list(self.addresses),
            "context_token_key": {"chain": context.chain, "address": context.address} if context else None,
        }

    @property
    def cost(self) -> int:
        return prices.SUBGRAPH_BASE + prices.SUBGRAPH_ADDRESS * len(self.addresses)


class AddressMetadataRequest(Request):
    """GET /v0/addresses/metadata/{address}"""

    endpoint: ClassVar[str] = "address_metadata"
    answer: ClassVar[Any] = AddressMetadata

    address: Address

    @property
    def path(self) -> str:
        return f"/v0/addresses/metadata/{quote(self.address, safe='')}"

    @property
    def cost(self) -> int:
        return prices.ADDRESS_METADATA


class AddressesMetadataRequest(Request):
    """POST /v0/addresses/metadata"""

    endpoint: ClassVar[str] = "addresses_metadata"
    method: ClassVar[str] = "POST"
    answer: ClassVar[Any] = list[AddressMetadata]

    addresses: tuple[Address, ...] = Field(min_length=1, max_length=MAX_METADATA_ADDRESSES)

    @property
    def path(self) -> str:
        return "/v0/addresses/metadata"

    @property
    def body(self) -> dict[str, Any]:
        return {"addresses": list(self.addresses)}

    @property
    def cost(self) -> int:
        return prices.ADDRESS_METADATA * len(self.addresses)


ENDPOINTS: tuple[type[Request], ...] = (
    ChainsRequest,
    MapRequest,
    MetricsRequest,
    HoldersRequest,
    TokenMetadataRequest,
    TokensMetadataRequest,
    SearchRequest,
    ScreenshotRequest,
    SubgraphRequest,
    AddressMetadataRequest,
    AddressesMetadataRequest,
)
