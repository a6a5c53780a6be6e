"""The types that sources return and the store imports: transfers, tokens, labels and import reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

SQL_TYPES: Final = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us"),
}
"""Arrow types by DuckDB's names."""


def schema_of(text: str) -> pa.Schema:
    """Return the schema of ``name TYPE, name TYPE``, with DuckDB's types. A question mark after a type allows nulls."""
    pairs = (column.split(" ") for column in text.split(", "))
    return pa.schema([pa.field(name, SQL_TYPES[kind.rstrip("?")], kind.endswith("?")) for name, kind in pairs])


Key = tuple[str, str]
"""A token: its chain and its contract's address (``native`` for the chain's own coin)."""
TRANSFERS: Final = schema_of(
    "chain VARCHAR, token_address VARCHAR, token_standard VARCHAR, from_address VARCHAR, to_address VARCHAR, "
    "value VARCHAR, token_id VARCHAR?, block_number BIGINT, block_time BIGINT, tx_hash VARCHAR?, log_index BIGINT, "
    "time_kind VARCHAR, log_index_kind VARCHAR, source VARCHAR"
)
"""Columns of a table with one transfer per row.

Addresses are normalised (``contract.chains``). ``value`` and ``token_id`` are raw integers as decimal text (up to 256
bits), ``block_time`` is unix seconds, ``token_standard`` is erc20, erc721, erc1155 or native. A mint comes from the
zero address, and a burn goes to it. The order of transfers is (block_number, log_index). Their unique key is (chain,
tx_hash, log_index, token_id).
"""
NATIVE_LOG_INDEX: Final = 1 << 20
"""Factor in the computed ``log_index`` of transfers of a chain's own coin, which have no log index on the chain.

The ``log_index`` is this factor times the transaction's index in its block, plus the call's index in the transaction.
"""


@dataclass(frozen=True)
class TokenInfo:
    """A token's metadata. An amount in token units is the raw integer divided by 10^``decimals``.

    The transfers of a token with ``is_indexed`` count on the maps of all tokens. When metadata is stored, True marks
    the token as indexed, and False leaves its marks unchanged (``catalog.indexed_tokens``). ``unsupported`` is the
    reason why no map can be made for the token; it is None for nearly all tokens.
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
    is_assumed: bool = field(default=False, compare=False)
    """True if the decimals come from no source, but were assumed when transfers were imported."""

    @property
    def has_assumed_decimals(self) -> bool:
        """True if amounts in token units may be wrong. Items have no decimals, and the coins of known chains are
        certain."""
        return self.is_assumed and self.standard == "erc20"


@dataclass(frozen=True)
class Label:
    """A label of an address from one source, for example a file. ``chain`` is None if the source names no chain.

    If an address has several labels, the one with the highest ``precedence`` gives its name. The address has every kind
    (``is_cex``, ``is_dex``, ``is_contract``) that any of its labels has.

    A label with a period counts from the unix second ``valid_from`` to ``valid_to``, both included, where the rule
    ``labels`` is ``as_of``. A source may have labels of several periods for an address; each ends where the next one
    begins.
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
    valid_from: int | None = None
    valid_to: int | None = None


@dataclass(frozen=True)
class ImportReport:
    """Result of an import from ``source``, as numbers of rows.

    ``rows`` were read and ``added`` were stored. ``duplicates`` were skipped, because they are stored already or
    repeated. ``conflicts`` have the key of a stored row but other content; the stored row is kept. ``tokens`` has the
    imported tokens as texts ``chain/address``. ``replaced`` are stored rows that new rows with a log index or a
    transaction replaced. ``undecided`` has a sentence for each group of equal rows of which it is not clear how many
    transfers they are.
    """

    source: str
    rows: int
    added: int
    duplicates: int
    conflicts: int
    tokens: tuple[str, ...]
    replaced: int = 0
    undecided: tuple[str, ...] = ()

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The imported tokens as pairs of chain and address."""
        return [(chain, address) for chain, address in (token.split("/", 1) for token in self.tokens)]
