"""What sources hand to the store: transfers as an Arrow table, tokens and labels as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

Key = tuple[str, str]
"""A token: its chain and address."""
TRANSFERS: Final = pa.schema(
    [
        pa.field("chain", pa.string(), nullable=False),
        pa.field("token_address", pa.string(), nullable=False),
        pa.field("token_standard", pa.string(), nullable=False),
        pa.field("from_address", pa.string(), nullable=False),
        pa.field("to_address", pa.string(), nullable=False),
        pa.field("value", pa.string(), nullable=False),
        pa.field("token_id", pa.string()),
        pa.field("block_number", pa.int64(), nullable=False),
        pa.field("block_time", pa.int64(), nullable=False),
        pa.field("tx_hash", pa.string()),
        pa.field("log_index", pa.int64(), nullable=False),
        pa.field("time_kind", pa.string(), nullable=False),
        pa.field("log_index_kind", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
    ]
)
"""A transfer a row: addresses normalised, ``value`` and ``token_id`` raw integers as decimal text (up to 256 bits),
``block_time`` unix seconds UTC, ``token_standard`` erc20, erc721, erc1155 or native. A mint comes from the zero
address and a burn goes to it. Order is (block_number, log_index); (chain, tx_hash, log_index, token_id) is the key."""
NATIVE_LOG_INDEX: Final = 1 << 20
"""A transfer of the chain's own coin has no log index: it gets this number times the transaction's index in its block,
plus the number of the call within the transaction."""


@dataclass(frozen=True)
class TokenInfo:
    """A token's metadata. ``decimals`` turns raw integers into token units.

    ``is_indexed``: its transfers count on every map, not only on its own. Where metadata are stored, True marks the
    token and False leaves it as it is (``indexed``). ``unsupported`` says in words why no map
    can be made for it, and is None for nearly all tokens.
    """

    chain: str
    address: str
    name: str
    symbol: str
    decimals: int
    standard: str = "erc20"
    is_indexed: bool = False
    img_url: str | None = None
    unsupported: str | None = None


@dataclass(frozen=True)
class Label:
    """What a source says of an address. A higher ``precedence`` wins the name; kinds add up over all sources.

    ``chain`` is None where the source does not tell.
    """

    address: str
    chain: str | None
    source: str
    name: str | None = None
    entity_id: str | None = None
    is_cex: bool = False
    is_dex: bool = False
    is_contract: bool = False
    is_paid_label: bool = False
    precedence: int = 0


@dataclass(frozen=True)
class Rules:
    """The thresholds of classification (contract, "Classification and computation").

    A supernode has at least ``supernode_degree`` distinct counterparties, a hypernode more than
    ``hypernode_transfers`` transfers. A magic node is linked to at least ``magic_links`` shown holders; a map has at
    most ``magic_limit`` of them. ``time_window`` seconds is the width of a time node; at least ``time_links`` shown
    holders share it, its exchange has at most ``time_wallets`` distinct counterparties in that window, and a map has at
    most ``time_limit`` of them. Contracts in ``time_allowed`` count like exchanges.
    """

    supernode_degree: int = 10_000
    hypernode_transfers: int = 200_000
    magic_links: int = 2
    magic_limit: int = 40
    time_window: int = 300
    time_links: int = 2
    time_wallets: int = 20
    time_limit: int = 40
    fresh_wallet_seconds: int = 10 * 86_400
    time_allowed: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class ImportReport:
    """What an import did: rows read, new rows stored, rows that were there already or stood twice.

    ``conflicts`` counts rows whose key is stored with another content; the stored row was kept.
    """

    source: str
    rows: int
    added: int
    duplicates: int
    conflicts: int
    tokens: tuple[str, ...]

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The tokens as pairs of chain and address."""
        return [(chain, address) for chain, address in (token.split("/", 1) for token in self.tokens)]
