"""Notices about imported transfers whose values are probably not amounts, and about assumed decimals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import duckdb
import pyarrow as pa

from holderlake.engine.records import Key, TokenInfo

_APPROVAL: Final = str(2**256 - 2**160)
"""The least value that is taken for an unlimited approval, of which a part may be spent."""
_SAMPLE: Final = 10_000
_FLOAT_DIGITS: Final = 17
"""The most digits of a floating-point number that is written as text."""
_FEWEST_DIGITS: Final = 15
_LONG: Final = 20
_FEW: Final = 3
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


def rounded_values(transfers: pa.Table) -> list[str]:
    """Return a sentence if the first values of a file have lost digits; the list is empty if they have not."""
    if not are_rounded(transfers["value"].slice(0, _SAMPLE).to_pylist()):
        return []
    return [
        "The values are rounded to the digits of floating-point numbers, so balances are not exact. Export raw "
        "integers as text, and import them into a new home"
    ]


def are_rounded(texts: Iterable[str]) -> bool:
    """Return whether raw amounts in decimal digits went through floating-point numbers, so that digits were lost.

    Every long number then has at most 17 digits before its zeros, or is exactly the value of such a number. By chance
    that happens to less than one in a thousand exact numbers of 20 digits, so a few of these decide.
    """
    long_numbers = [text for text in texts if text.isdecimal() and len(text) > _FLOAT_DIGITS]
    decisive = [text for text in long_numbers if len(text) >= _LONG and len(text.rstrip("0")) >= _FEWEST_DIGITS]
    return len(decisive) >= _FEW and all(
        len(text.rstrip("0")) <= _FLOAT_DIGITS or int(float(text)) == int(text) for text in long_numbers
    )


def other_decimals(stated: Mapping[Key, int], tokens: Iterable[TokenInfo]) -> list[str]:
    """Return a sentence for each token whose stored decimals differ from those that a file or an option states."""
    return [
        f"{stated[token.chain, token.address]} decimals of {token.address} on {token.chain} are stated, but its "
        f"metadata has {token.decimals}. Amounts in token units were read with the stated decimals: check which number "
        "is right"
        for token in tokens
        if token.standard == "erc20"
        and not token.is_assumed
        and stated.get((token.chain, token.address), token.decimals) != token.decimals
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
