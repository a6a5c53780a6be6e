"""Notices about imported transfers whose values are probably not amounts, and about assumed decimals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import duckdb
import pyarrow as pa

from holderlake.engine.records import TokenInfo

_APPROVAL: Final = str(2**256 - 2**160)
"""The least value that is taken for an unlimited approval, of which a part may be spent."""
_LARGE: Final = str(2**128)
"""The least value that is no usual amount."""

_APPROVALS: Final = """
-- Tokens with values near 2^256, which is the amount of an unlimited approval and more than any supply.
SELECT chain, token_address, count(*) AS rows, count(*) FILTER (length(value) = 78 AND value >= $approval) AS approvals
FROM transfers
WHERE token_standard = 'erc20'
GROUP BY ALL
HAVING approvals > 0
ORDER BY ALL
"""
_ITEMS: Final = """
-- Tokens of which every value is minted at most once and then moves whole, from its receiver to the next one.
WITH moves AS (
    SELECT
        chain, token_address, value, from_address,
        lag(to_address) OVER of_value AS owner,
        length(value) > length($large) OR (length(value) = length($large) AND value >= $large) AS is_large
    FROM transfers
    WHERE token_standard = 'erc20' AND value <> '0'
    WINDOW of_value AS (PARTITION BY chain, token_address, value ORDER BY block_number, log_index)
)
SELECT
    chain, token_address, count(DISTINCT value) AS items, max(length(value)) AS digits,
    count(*) FILTER (owner IS NULL AND from_address = $zero) AS mints, count(owner) AS moved
FROM moves
GROUP BY ALL
HAVING items >= 3 AND bool_and(owner IS NULL OR owner = from_address)
    AND (bool_or(is_large) OR (mints = items AND moved >= 2))
ORDER BY ALL
"""


def notices_of(transfers: pa.Table) -> list[str]:
    """Return a sentence for each token of a file whose values are probably not amounts.

    ``transfers`` are the file's transfers, in the schema ``records.TRANSFERS``.
    """
    zero = "0x" + "0" * 40
    with duckdb.connect() as connection:
        connection.register("transfers", transfers)
        approvals = connection.execute(_APPROVALS, {"approval": _APPROVAL}).fetchall()
        items = connection.execute(_ITEMS, {"large": _LARGE, "zero": zero}).fetchall()
    sentences = [
        f"{count:,} of {rows:,} values of token {token} on {chain} are near 2^256, as in unlimited approvals: "
        "these rows look like approvals, not transfers. Check the export, and import it again into a new home"
        for chain, token, rows, count in approvals
    ]
    of_approvals = {(chain, token) for chain, token, *_ in approvals}
    return sentences + [
        f"value of token {token} on {chain} looks like numbers of items, not amounts: each of its {count:,} values is "
        f"minted at most once and moves whole, and the longest has {digits} digits. To read items, import it into "
        "a new home with --map token_id=value --set value=1 --set token_standard=erc721"
        for chain, token, count, digits, *_ in items
        if (chain, token) not in of_approvals
    ]


def assumed_decimals(tokens: Iterable[TokenInfo]) -> str | None:
    """Return a sentence about the tokens whose decimals come from no source; None if there is none."""
    assumed = [token for token in tokens if token.has_assumed_decimals]
    if not assumed:
        return None
    example = min(assumed, key=lambda token: (token.chain, token.address))
    return (
        f"No source gave the decimals of {len(assumed):,} {'token' if len(assumed) == 1 else 'tokens'}, so "
        f"{example.decimals} are assumed and amounts in token units may be wrong, for example of {example.address} on "
        f"{example.chain}. Import a token list, or read the token with 'holderlake import node'"
    )


def partly_indexed(events: Mapping[str, int]) -> list[str]:
    """Return a sentence about Transfer events with one indexed address; the list is empty if there are none.

    ``events`` has the number of these events by token.
    """
    if not events:
        return []
    example = min(events)
    return [
        f"{sum(events.values()):,} Transfer events of {len(events):,} {'token' if len(events) == 1 else 'tokens'}, for "
        f"example {example}, have only one of their addresses indexed. They do not show which one is the sender, so "
        "they were not read, and balances are not exact. Import the token's transfers from decoded columns (--map)"
    ]
