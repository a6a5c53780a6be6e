"""Items of NFTs (ERC-721 and ERC-1155) as of a second: the holders of an item, and the items of an address.

An item is one ``token_id`` of a token. These queries read the transfers, because stored balances have only the number
of items. An ERC-721 item belongs to the receiver of its latest transfer (by block and log index). The balance of an
ERC-1155 item is the received minus the sent quantity. Opening balances count if they have token ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.times import from_unix, to_unix
from holderlake.engine.errors import NoHolders, UnknownToken
from holderlake.engine.files.dictionary import UNKNOWN
from holderlake.engine.files.entries import entries_of
from holderlake.engine.files.listing import OPENING
from holderlake.engine.records import TokenInfo, schema_of
from holderlake.engine.store.store import Store

ITEMS: Final = schema_of(
    "chain VARCHAR, token_address VARCHAR, token_id VARCHAR, address VARCHAR, quantity VARCHAR, since TIMESTAMP"
)
"""Columns of a table with one row for each item and holder.

``token_id`` and ``quantity`` are integers as text (up to 256 bits). ``since`` is the time (UTC) of the latest transfer
that changed the quantity.
"""

_STANDARDS: Final = ("erc721", "erc1155")
_LAST_SECOND: Final = 253_402_300_799
"""Unix seconds of the end of the year 9999."""

_ROWS: Final = """
rows AS (
    SELECT token_standard, token_id, from_address, to_address, value, block_number, log_index, block_time
    FROM read_parquet($files)
    WHERE chain = $chain AND token_address = $token AND token_id IS NOT NULL AND block_time <= $second
        AND {condition}
)
"""

_HOLDINGS: Final = """
-- ERC-721: the receiver of each item's latest transfer. ERC-1155: received less sent; sums are exact at any size.
WITH {rows},
latest AS (
    SELECT token_id, to_address AS address, '1' AS received, '0' AS sent, block_time AS since
    FROM rows
    WHERE token_standard = 'erc721'
    QUALIFY row_number() OVER (
        PARTITION BY token_id ORDER BY block_number DESC, log_index DESC, from_address DESC, to_address DESC
    ) = 1
),
moved AS (
    SELECT token_id, to_address AS address, value AS received, '0' AS sent, block_time
    FROM rows WHERE token_standard <> 'erc721'
    UNION ALL
    SELECT token_id, from_address, '0', value, block_time FROM rows WHERE token_standard <> 'erc721'
),
summed AS (
    SELECT
        token_id, address, CAST(sum(CAST(received AS BIGNUM)) AS VARCHAR) AS received,
        CAST(sum(CAST(sent AS BIGNUM)) AS VARCHAR) AS sent, max(block_time) AS since
    FROM moved
    GROUP BY token_id, address
)
SELECT * FROM (FROM latest UNION ALL BY NAME FROM summed)
WHERE address <> $zero AND ($holder = '' OR address = $holder)
ORDER BY length(token_id), token_id, address
"""

_ONE_ITEM: Final = "token_id = $item"
_OF_ADDRESS: Final = """token_id IN (
            SELECT token_id FROM read_parquet($files)
            WHERE chain = $chain AND token_address = $token AND to_address = $address AND block_time <= $second
        )"""


def holders_of_item(store: Store, chain: str, token_address: str, token_id: int, as_of: datetime) -> pa.Table:
    """Return the holders of an item at the end of the second ``as_of``, the largest quantity first (schema ``ITEMS``).

    Raises ``UnknownToken``, or ``NoHolders`` if the item has no holders or the token has no items.
    """
    token = _token(store, chain, token_address)
    holdings = _holdings(store, token, as_of, _ONE_ITEM, item=str(token_id))
    if not holdings:
        raise NoHolders(
            f"item {token_id} of {token.name} ({token.address} on {chain}) has no holders at {as_of.isoformat()}Z; "
            "check the token id and the time"
        )
    return _table(sorted(holdings, key=lambda row: (-int(row["quantity"]), row["address"])))


def items_of_address(
    store: Store, address: str, as_of: datetime, chain: str | None = None, token_address: str | None = None
) -> pa.Table:
    """Return the items of an address at the end of the second ``as_of``, by chain, token and item (schema ``ITEMS``).

    If ``chain`` or ``token_address`` is given, only items of that chain or token are returned.
    """
    rows = []
    for token in _tokens_of(store, address):
        if chain in (None, token.chain) and token_address in (None, token.address):
            rows += _holdings(store, token, as_of, _OF_ADDRESS, address=address)
    return _table(rows)


def _token(store: Store, chain: str, token_address: str) -> TokenInfo:
    token = store.token(chain, token_address)
    if token is None:
        raise UnknownToken(f"the store has no token {token_address} on chain {chain}; check chain and address")
    if token.standard not in _STANDARDS and not _has_items(store, token):
        raise NoHolders(
            f"{token.name} ({token_address} on {chain}) has no items, because it is {token.standard}; name an ERC-721 "
            "or ERC-1155 token"
        )
    return token


def _has_items(store: Store, token: TokenInfo) -> bool:
    """Return whether any transfer of the token has a ``token_id``.

    The standard in the metadata does not suffice, because a token list can set a wrong one.
    """
    sql = "SELECT count(token_id) > 0 AS found FROM read_parquet($files)"
    return bool(store.query(sql, {"files": _files(store, token)})["found"][0].as_py())


def _tokens_of(store: Store, address: str) -> list[TokenInfo]:
    """Return the tokens with items that an address sent, received or has as opening balance, by chain and address."""
    view = store.view()
    listing, numbers = view.listing, view.dictionary.find([address])
    if numbers[0] == UNKNOWN:
        return []
    every = np.ones(max(listing.numbers.values(), default=0) + 1, np.bool_)
    moved_tokens = set(entries_of(view, numbers, every, _LAST_SECOND).tokens.tolist())
    opened = {number for number, parts in listing.parts.items() if any(part.kind == OPENING for part in parts)}
    tokens = store.tokens(sorted(listing.keys[number] for number in moved_tokens | opened))
    return [
        tokens[key] for key in sorted(tokens) if tokens[key].standard in _STANDARDS or _has_items(store, tokens[key])
    ]


def _holdings(store: Store, token: TokenInfo, as_of: datetime, condition: str, **bound: str) -> list[dict[str, Any]]:
    """Return the holdings of a token's items at the end of the second ``as_of``, as rows of ``ITEMS``, by item.

    The SQL text ``condition`` selects the transfers that count. ``bound`` has the values of the condition's
    parameters.
    """
    parameters = {"chain": token.chain, "token": token.address, "second": to_unix(as_of), "zero": ZERO_ADDRESS}
    parameters |= {"holder": bound.get("address", "")} | bound
    sql = _HOLDINGS.format(rows=_ROWS.format(condition=condition))
    table = store.query(sql, parameters | {"files": _files(store, token)})
    rows = (row | {"quantity": int(row["received"]) - int(row["sent"])} for row in table.to_pylist())
    return [
        {
            "chain": token.chain,
            "token_address": token.address,
            "token_id": row["token_id"],
            "address": row["address"],
            "quantity": str(row["quantity"]),
            "since": from_unix(row["since"]),
        }
        for row in rows
        if row["quantity"] > 0
    ]


def _files(store: Store, token: TokenInfo) -> list[str]:
    """Return the files of the token's transfers and opening balances."""
    key = (token.chain, token.address)
    openings = (part.file for part in store.view().listing.parts_of(key) if part.kind == OPENING)
    return [*store.files([key]), *(f"{store.root}/openings/{name}.parquet" for name in openings)]


def _table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), ITEMS)
