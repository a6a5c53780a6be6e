"""Answers of the API as msgspec structs, with the fields that the tables need.

Numbers stay text (``msgspec.Raw``) until their column is built, so that none passes through a float. Values that repeat
in most rows (the ends and the token of a relationship) stay text too: they are read once for all rows that share them.
A field without a default identifies its row. Every other field may be absent or null, and is then null in the table.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw

from holderlake.contract.models import GROUPED_TRANSFER

NULL: Final = Raw(b"null")

Amount: TypeAlias = Annotated[Raw, Meta(title="amount")]
"""A number of token units, exact."""
Figure: TypeAlias = Annotated[Raw, Meta(title="figure")]
"""A number that a double holds."""
Text: TypeAlias = Annotated[Raw, Meta(title="raw text")]
"""A JSON string."""
Key: TypeAlias = Annotated[Raw, Meta(title="key")]
"""A ``TokenKey``, or null."""
Scores: TypeAlias = Annotated[Raw, Meta(title="scores")]
"""An object of figures, whose names differ between providers."""
Seconds: TypeAlias = Annotated[int | None, Meta(title="unix seconds")]
Instant: TypeAlias = Annotated[str | None, Meta(title="instant")]
"""An ISO 8601 date-time."""


class Struct(msgspec.Struct, gc=False):
    """Base of all: structs hold no cycles."""


class TokenKey(Struct):
    """A token: its chain, and its contract's address or ``native``."""

    chain: str
    address: str


class AddressDetails(Struct):
    """Details of an address."""

    degree: int | None = None
    inward_relations: int | None = None
    outward_relations: int | None = None
    is_supernode: bool | None = None
    is_contract: bool | None = None
    is_cex: bool | None = None
    is_dex: bool | None = None
    label: str | None = None
    entity_id: str | None = None
    first_activity_date: Instant = None
    is_paid_label: bool | None = False


class HolderData(Struct):
    """The holding of a token by an address."""

    amount: Amount = NULL
    rank: int | None = None
    share: Figure = NULL


class Node(Struct):
    """An item of the holders list, a top holder or a magic node of a map, or an address with its details."""

    address: str
    holder_data: HolderData | None = None
    address_details: AddressDetails | None = None
    is_shown_on_map: bool | None = None


class TransferData(Struct):
    """All transfers of one token from one address to another."""

    token_key: Key
    total_value: Amount = NULL
    total_transfers: int | None = None
    first_date: Seconds = None
    last_date: Seconds = None


class Transfer(Struct):
    """A relationship made by transfers."""

    from_address: Text
    to_address: Text
    data: TransferData
    rel_type: Literal["GROUPED_TRANSFER"] = GROUPED_TRANSFER  # type: ignore[assignment]  # the constant's own text


class UnknownTransfer(Struct):
    """A relationship of a type that this version does not know; ``unknown_data`` is its data as JSON."""

    from_address: Text
    to_address: Text
    data: TransferData
    rel_type: str
    unknown_data: str


class TimeNode(Struct):
    """An exchange or allow-listed contract in one time window."""

    address: str
    relationships: list[Transfer] | None = None


class Nodes(Struct):
    """The nodes of a map."""

    top_holders: list[Node] | None = None
    magic_nodes: list[Node] | None = None
    time_nodes: list[TimeNode] | None = None


class Cluster(Struct):
    """A cluster of a map."""

    share: Figure = NULL
    amount: Amount = NULL
    holder_count: int | None = None
    holders: list[str] | None = None
    magic_node_count: int | None = 0
    magic_nodes: list[str] | None = None


class SupplyStats(Struct):
    """Shares of the total supply."""

    cexs: Figure = NULL
    dexs: Figure = NULL
    contracts: Figure = NULL
    fresh_wallets: Figure = NULL
    top_10_adjusted: Figure = NULL
    bundles: Figure = NULL


class Metrics(Struct):
    """Supply statistics and scores of a map."""

    supply_stats: SupplyStats
    scores: Scores


class MapMetadata(Struct):
    """The time at which the provider computed the map."""

    dt_update: str | None = None


class Map(Struct):
    """A token's map."""

    metadata: MapMetadata
    metrics: Metrics
    nodes: Nodes | None = None
    relationships: list[Transfer] | None = None
    clusters: list[Cluster] | None = None


class TokenMetadata(Struct):
    """Name and symbol of a token."""

    name: str | None = None
    symbol: str | None = None
    is_indexed: bool | None = None
    img_url: str | None = None


class TokenStats(Struct):
    """Statistics of a token's transfers."""

    transfers_count: int | None = None
    min_date: Instant = None
    max_date: Instant = None


class Token(Struct):
    """A token."""

    token_key: TokenKey
    metadata: TokenMetadata
    stats: TokenStats | None = None
    token_stats: TokenStats | None = None
    """The name of ``stats`` before version 0.3.0."""


class Chain(Struct):
    """A supported chain."""

    id: str
    name: str | None = None
    dexscreener_id: str | None = None
    coingecko_id: str | None = None


SCORE_FIGURES: Final = ("gini_index", "herfindahl_hirschman_index")
SCORE_COUNT: Final = "nakamoto_coefficient"
