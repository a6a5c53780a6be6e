"""The requests of the API as plain data: path, options, body, price and type of the answer.

The client sends these requests, and the service parses them. Planner and ledger read their prices. The archive stores
an answer under its request. Requests of our own routes belong to the service, except the rules of maps. Source:
docs/contract.md, "Endpoints and credits".
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Final
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from holderlake.core.contract import prices
from holderlake.core.contract.models import (
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
from holderlake.core.contract.rules import MapRules

MAX_SUBGRAPH_ADDRESSES = 1_000
MAX_METADATA_ADDRESSES = 2_500
MAX_METADATA_TOKENS = 1_000

_FIELD: Final = re.compile(r"\{(\w+)\}")
_Timestamp = Annotated[int, Field(ge=0), PlainInteger]

_TIME_NODES: Final = (
    "Link wallets that used the same exchange in the same time window, in relationships, score and clusters. "
    "With false, only transfers link wallets."
)


class Request(BaseModel):
    """Base of all requests. It refuses unknown fields, so that a misspelt field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: ClassVar[str]
    method: ClassVar[str] = "GET"
    route: ClassVar[str]
    """The URL path below the provider's base address, with the names of fields in braces."""
    price: ClassVar[int]
    """Hundredths of a credit, for a request whose price does not depend on its options."""
    answer: ClassVar[Any]
    """Type of the answer's JSON: a model or a list of models."""
    has_rows: ClassVar[bool] = False
    """Whether a list has at least one row: where there is nothing to list, the answer is an error."""

    @property
    def path(self) -> str:
        """Return the URL path below the provider's base address, with each field percent-encoded."""
        return _FIELD.sub(lambda name: quote(getattr(self, name[1]), safe=""), self.route)

    @property
    def query(self) -> dict[str, str]:
        """Return the query parameters whose values differ from the defaults."""
        options = getattr(self, "options", None)
        return {} if options is None else _query_text(options)

    @property
    def body(self) -> Any:
        """Return the JSON body of the request, or None for a request without one."""
        return None

    @property
    def cost(self) -> int:
        """Return the price of a successful (2xx) answer in hundredths of a credit."""
        return self.price

    @property
    def subject(self) -> str | None:
        """Return the token of the request (``chain/address``) for ledgers and reports, or None."""
        return None


def _query_text(options: BaseModel) -> dict[str, str]:
    changed = options.model_dump(exclude_defaults=True)
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in changed.items()}


class Options(BaseModel):
    """Base of the query parameters of an endpoint."""

    model_config = ConfigDict(frozen=True)


class MapOptions(Options):
    """Query parameters of the map endpoint."""

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


class HoldersOptions(Options):
    """Query parameters of the holders endpoint."""

    limit: HolderLimit = Field(default=80, description="Number of holders; 250 and 500 carry a surcharge.")
    return_metadata: bool = Field(default=False, description="Return labels and metadata (surcharge).")
    refresh: bool = Field(default=False, description="Force a cache refresh (surcharge).")
    timestamp: _Timestamp | None = Field(
        default=None, description="Unix seconds: the holders as of that past date (surcharge)."
    )
    return_raw_amounts: bool = Field(default=False, description="Add exact raw integers as text (our extension).")


class ChainsRequest(Request):
    """GET /v0/chains: the supported chains."""

    endpoint: ClassVar[str] = "chains"
    route: ClassVar[str] = "/v0/chains"
    price: ClassVar[int] = prices.CHAINS
    answer: ClassVar[Any] = list[Chain]
    has_rows: ClassVar[bool] = True


class TokenRequest(Request):
    """Base of the requests about one token."""

    chain: ChainId
    token_address: Address

    @property
    def subject(self) -> str:
        return f"{self.chain}/{self.token_address}"


class MapRequest(TokenRequest):
    """GET /v0/tokens/map/{chain}/{token_address}: the map of a token."""

    endpoint: ClassVar[str] = "map"
    route: ClassVar[str] = "/v0/tokens/map/{chain}/{token_address}"
    answer: ClassVar[Any] = Map

    options: MapOptions = MapOptions()

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
    """GET /v0/tokens/holders/{chain}/{token_address}: the largest holders of a token."""

    endpoint: ClassVar[str] = "holders"
    route: ClassVar[str] = "/v0/tokens/holders/{chain}/{token_address}"
    answer: ClassVar[Any] = list[Holder]
    has_rows: ClassVar[bool] = True

    options: HoldersOptions = HoldersOptions()

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
    """GET /v0/tokens/metrics/{chain}/{token_address}: the metrics of a token's map."""

    endpoint: ClassVar[str] = "metrics"
    price: ClassVar[int] = prices.METRICS
    route: ClassVar[str] = "/v0/tokens/metrics/{chain}/{token_address}"
    answer: ClassVar[Any] = Metrics


class ScreenshotRequest(TokenRequest):
    """GET /v0/tokens/screenshot/{chain}/{token_address}: a picture of a token's map."""

    endpoint: ClassVar[str] = "screenshot"
    price: ClassVar[int] = prices.SCREENSHOT
    route: ClassVar[str] = "/v0/tokens/screenshot/{chain}/{token_address}"
    answer: ClassVar[Any] = Screenshot


class TokenMetadataRequest(TokenRequest):
    """GET /v0/tokens/metadata/{chain}/{token_address}: name and symbol of a token, and its statistics."""

    endpoint: ClassVar[str] = "token_metadata"
    route: ClassVar[str] = "/v0/tokens/metadata/{chain}/{token_address}"
    answer: ClassVar[Any] = Token

    return_token_stats: bool = False

    @property
    def query(self) -> dict[str, str]:
        return {"return_token_stats": "true"} if self.return_token_stats else {}

    @property
    def cost(self) -> int:
        return prices.TOKEN_METADATA_WITH_STATS if self.return_token_stats else prices.TOKEN_METADATA


class TokensMetadataRequest(Request):
    """POST /v0/tokens/metadata: name, symbol and statistics of several tokens. The body is an array of token keys."""

    endpoint: ClassVar[str] = "tokens_metadata"
    route: ClassVar[str] = "/v0/tokens/metadata"
    method: ClassVar[str] = "POST"
    answer: ClassVar[Any] = list[Token]

    tokens: tuple[TokenKey, ...] = Field(max_length=MAX_METADATA_TOKENS)
    return_token_stats: bool = False

    @property
    def query(self) -> dict[str, str]:
        return {"return_token_stats": "true"} if self.return_token_stats else {}

    @property
    def body(self) -> list[dict[str, str]]:
        return [{"chain": token.chain, "address": token.address} for token in self.tokens]

    @property
    def cost(self) -> int:
        token_cost = prices.TOKEN_METADATA_WITH_STATS if self.return_token_stats else prices.TOKEN_METADATA
        return token_cost * len(self.tokens)


class SearchRequest(Request):
    """GET /v0/tokens/search: tokens found by a text, such as a name."""

    endpoint: ClassVar[str] = "search"
    route: ClassVar[str] = "/v0/tokens/search"
    price: ClassVar[int] = prices.SEARCH
    answer: ClassVar[Any] = list[Token]

    text: str = Field(min_length=2, max_length=256)

    @property
    def query(self) -> dict[str, str]:
        return {"query": self.text}


class SubgraphRequest(Request):
    """POST /v0/relationships/subgraph: the grouped transfers between the given addresses."""

    endpoint: ClassVar[str] = "subgraph"
    route: ClassVar[str] = "/v0/relationships/subgraph"
    method: ClassVar[str] = "POST"
    answer: ClassVar[Any] = list[Relationship]

    addresses: tuple[Address, ...] = Field(min_length=2, max_length=MAX_SUBGRAPH_ADDRESSES)
    context_token_key: TokenKey | None = None

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
    """GET /v0/addresses/metadata/{address}: the details of an address."""

    endpoint: ClassVar[str] = "address_metadata"
    route: ClassVar[str] = "/v0/addresses/metadata/{address}"
    price: ClassVar[int] = prices.ADDRESS_METADATA
    answer: ClassVar[Any] = AddressMetadata

    address: Address


class AddressesMetadataRequest(Request):
    """POST /v0/addresses/metadata: the details of several addresses."""

    endpoint: ClassVar[str] = "addresses_metadata"
    route: ClassVar[str] = "/v0/addresses/metadata"
    method: ClassVar[str] = "POST"
    answer: ClassVar[Any] = list[AddressMetadata]

    addresses: tuple[Address, ...] = Field(min_length=1, max_length=MAX_METADATA_ADDRESSES)

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


class RulesRequest(Request):
    """GET /v0/x/rules: the rules by which maps are made."""

    endpoint: ClassVar[str] = "x_rules"
    route: ClassVar[str] = "/v0/x/rules"
    price: ClassVar[int] = 0
    answer: ClassVar[Any] = MapRules
