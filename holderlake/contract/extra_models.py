"""The objects that only our own service answers, under ``/v0/x/``, in the contract's style.

Their requests are in ``extra_requests``. Raw amounts are integers as text.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from holderlake.contract.models import GroupedTransferData, Holder, Model, RawAmount, Share


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
