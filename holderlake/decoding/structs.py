"""Msgspec structs of the API's answers, with the fields that the tables need.

Exact numbers stay JSON text (``msgspec.Raw``) until their column is built, so that no number becomes a float. Addresses
and token of a relationship stay JSON text too. They repeat in most rows, and each distinct text is decoded once. A
field without a default identifies its row. Other fields may be absent or null; then they are null in the table.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw

from holderlake.contract.models import GROUPED_TRANSFER

NULL: Final = Raw(b"null")

Amount: TypeAlias = Annotated[Raw, Meta(title="amount")]
"""Raw JSON number: an exact amount in units of the token."""
Figure: TypeAlias = Annotated[Raw, Meta(title="figure")]
"""Raw JSON number that fits a 64-bit float."""
Text: TypeAlias = Annotated[Raw, Meta(title="raw text")]
"""Raw JSON string, with its quotes."""
Key: TypeAlias = Annotated[Raw, Meta(title="key")]
"""Raw JSON of a ``TokenKey``, or null."""
Scores: TypeAlias = Annotated[Raw, Meta(title="scores")]
"""Raw JSON object of scores by name. The names differ between providers."""
Seconds: TypeAlias = Annotated[int | None, Meta(title="unix seconds")]
"""Unix time in seconds."""
Instant: TypeAlias = Annotated[str | None, Meta(title="instant")]
"""ISO 8601 date-time as text."""


class Struct(msgspec.Struct, gc=False):
    """Base of all structs. Structs form no reference cycles, so ``gc=False`` keeps them out of garbage collection."""


class TokenKey(Struct):
    """A token: its chain, and its contract's address or ``native``."""

    chain: str
    address: str


class AddressDetails(Struct):
    """Details of an address: number of counterparties, flags, label, entity and first activity."""

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
    """Holding of a token by an address: amount, rank from 1, and share of the supply (0 to 1)."""

    amount: Amount = NULL
    rank: int | None = None
    share: Figure = NULL


class Node(Struct):
    """An address with its holding or details: an element of a holder list, or a top holder or magic node of a map."""

    address: str
    holder_data: HolderData | None = None
    address_details: AddressDetails | None = None
    is_shown_on_map: bool | None = None


class TransferData(Struct):
    """All transfers of one token from one address to another: sum, number, first and last date."""

    token_key: Key
    total_value: Amount = NULL
    total_transfers: int | None = None
    first_date: Seconds = None
    last_date: Seconds = None


class Transfer(Struct):
    """A relationship of the type ``GROUPED_TRANSFER`` between two addresses."""

    from_address: Text
    to_address: Text
    data: TransferData
    rel_type: Literal["GROUPED_TRANSFER"] = GROUPED_TRANSFER  # type: ignore[assignment]  # the constant's own text


class UnknownTransfer(Struct):
    """A relationship of a type that this version does not know. ``unknown_data`` is its ``data`` as JSON text."""

    from_address: Text
    to_address: Text
    data: TransferData
    rel_type: str
    unknown_data: str


class TimeNode(Struct):
    """An exchange or allow-listed contract in one time window, and its relationships in that window."""

    address: str
    relationships: list[Transfer] | None = None


class Nodes(Struct):
    """The nodes of a map, by kind."""

    top_holders: list[Node] | None = None
    magic_nodes: list[Node] | None = None
    time_nodes: list[TimeNode] | None = None


class Cluster(Struct):
    """A cluster of a map. ``holders`` and ``magic_nodes`` are addresses, ``share`` is from 0 to 1."""

    share: Figure = NULL
    amount: Amount = NULL
    holder_count: int | None = None
    holders: list[str] | None = None
    magic_node_count: int | None = 0
    magic_nodes: list[str] | None = None


class SupplyStats(Struct):
    """Shares of the total supply (0 to 1), by kind of holder."""

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
    """Metadata of a map: the time at which the provider computed it, as text."""

    dt_update: str | None = None


class Map(Struct):
    """The map of a token: its nodes, relationships, clusters and metrics."""

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
    """Number of a token's transfers, and dates of the first and the last."""

    transfers_count: int | None = None
    min_date: Instant = None
    max_date: Instant = None


class Token(Struct):
    """A token with its metadata and statistics."""

    token_key: TokenKey
    metadata: TokenMetadata
    stats: TokenStats | None = None
    token_stats: TokenStats | None = None
    """Name of ``stats`` before version 0.3.0 of the API."""


class Chain(Struct):
    """A supported chain."""

    id: str
    name: str | None = None
    dexscreener_id: str | None = None
    coingecko_id: str | None = None


SCORE_FIGURES: Final = ("gini_index", "herfindahl_hirschman_index")
SCORE_COUNT: Final = "nakamoto_coefficient"
