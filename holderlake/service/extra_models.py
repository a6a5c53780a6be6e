"""The objects in answers of our own routes under ``/v0/x/``, which other providers do not have.

Their requests are in ``extra_requests``. Raw amounts are integers as text.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from holderlake.core.contract.fields import Column
from holderlake.core.contract.models import GroupedTransferData, Holder, Model, RawAmount, Share, UnixSeconds


class HoldersPage(Model):
    """A page of a token's holders, sorted by rank, as of one instant. On the last page ``next_cursor`` is null."""

    as_of: int
    holders: list[Holder]
    next_cursor: str | None = None


class Transfer(Model):
    """One transfer on the chain."""

    tx_hash: str | None = None
    block_number: int
    timestamp: Annotated[UnixSeconds, Column("block_time")]
    log_index: int
    token_id: RawAmount | None = None
    value_raw: RawAmount


class EvidenceLink(Model):
    """A link between two members of a cluster, or between a member and a time node.

    The strongest link of a cluster has ``strength`` 1. ``time_node`` is the position (from 1) of the link's time node
    in the map's ``nodes.time_nodes``; it is null for a link between members. Two members with links to the same time
    node used the exchange in the same time window.
    """

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
    """The links that connect a cluster. ``cluster_id`` 1 is the largest cluster of the map."""

    cluster_id: int = Field(ge=1)
    links: list[EvidenceLink]


class Evidence(Model):
    """The transfers that link the members of a map's clusters."""

    as_of: int
    clusters: list[ClusterEvidence]


class OwnerLink(Model):
    """Evidence that a wallet has an owner in common with others: all wallets with the same ``kind`` and ``link``.

    ``through`` is the address whose transfers with the wallet are the evidence, and the times are those of the first
    and last of these transfers (unix seconds).
    """

    address: str
    kind: str
    link: int
    through: str | None = None
    confidence: Share
    transfers: int
    first_time: int | None = None
    last_time: int | None = None


class OwnerCluster(Model):
    """Holders that probably have one owner, by rank, with the strongest evidence of each."""

    share: Share
    holders: list[str]
    links: list[OwnerLink]


class OwnerClusters(Model):
    """The clusters of a token's holders by evidence of several kinds, the largest share first.

    ``entities_as_of`` (unix seconds) is the instant after which transfers are no evidence, null if they have no times,
    and ``least_confidence`` that of the search's joins.
    """

    as_of: int
    entities_as_of: int | None
    least_confidence: float
    clusters: list[OwnerCluster]


class SourceLabel(Model):
    """A label of an address from one source. ``chain`` is null if the source names no chain.

    ``valid_from`` and ``valid_to`` are the first and last second of its period; null without such an end.

    Answers of other endpoints show the label with the highest ``precedence``.
    """

    source: str
    chain: str | None
    label: Annotated[str | None, Column("name")]
    entity_id: str | None
    is_cex: bool
    is_dex: bool
    is_contract: bool
    is_paid_label: bool
    precedence: int
    valid_from: UnixSeconds | None
    valid_to: UnixSeconds | None


class AddressLabels(Model):
    """All labels of an address, each with its source."""

    address: str
    labels: list[SourceLabel]


class UsageLine(Model):
    """Number of requests to an endpoint on one day, and their cost in hundredths of a credit."""

    day: str
    endpoint: str
    requests: int
    hundredths: int


class Usage(Model):
    """The caller's current month in hundredths of a credit, with costs by day and endpoint."""

    allowance: int
    spent: int
    reserved: int
    remaining: int
    renews_on: str
    charged: list[UsageLine]


class ItemHolder(Model):
    """A holder of one NFT token id. ``since`` is the last time (unix seconds) at which its quantity changed."""

    address: str
    quantity: RawAmount
    since: UnixSeconds


class ItemHolders(Model):
    """The largest holders of one NFT token id. ``total`` counts all holders."""

    as_of: int
    token_id: RawAmount
    total: int
    holders: list[ItemHolder]


class HeldItem(Model):
    """An NFT token id that an address held. ``since`` is the last time (unix seconds) at which its quantity changed."""

    chain: str
    token_address: str
    token_id: RawAmount
    quantity: RawAmount
    since: UnixSeconds


class AddressItems(Model):
    """A page of the NFT token ids that an address held, sorted by chain, token and id.

    On the last page ``next_offset`` is null.
    """

    as_of: int
    address: str
    total: int
    items: list[HeldItem]
    next_offset: int | None = None


class VerifiedToken(Model):
    """The last comparison of a token's stored transfers with a node, over the blocks ``first_block`` to ``last_block``.

    ``as_of`` is the time of the last block, and both times are unix seconds. ``balances`` says whether the supply and
    sampled balances are those of the token's contract.
    """

    chain: str
    token_address: str
    is_complete: bool
    balances: Literal["equal", "different", "unknown"]
    first_block: int
    last_block: int
    as_of: UnixSeconds
    checked_at: UnixSeconds
    source: str = Field(description="Host of the node.")
    blocks: int = Field(ge=0, description="Blocks whose events were compared.")
    events: int = Field(ge=0, description="Events compared, of all tokens of the check.")
    missing_rows: int = Field(ge=0)
    extra_rows: int = Field(ge=0)
    unread_blocks: int = Field(ge=0, description="Blocks of the range that were never imported.")
    first_difference: int | None = None
    last_difference: int | None = None


class VerifiedTokens(Model):
    """The tokens whose transfers were compared with a node."""

    tokens: list[VerifiedToken]
