"""Who holds how much of a token as of any second: exact integers from the raw transfers.

A lossy history can leave an address below nothing. Such an address is never a holder; it is reported by
``negative_balances`` as a matter of data quality.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Context, Decimal
from typing import Final

import pyarrow as pa

from contract.chains import ZERO_ADDRESS
from contract.times import to_unix
from engine.errors import NoHolders, UnknownToken, UnsupportedToken
from engine.records import TokenInfo
from engine.store import Store

_MOVED: Final = """
WITH moved AS (
    SELECT from_address, to_address, value::BIGNUM AS value
    FROM read_parquet($files)
    WHERE chain = $chain AND token_address = $token AND block_time <= $as_of
),
changes AS (
    SELECT to_address AS address, value AS change FROM moved
    UNION ALL
    SELECT from_address, -value FROM moved
),
balances AS (
    SELECT address, sum(change) AS balance
    FROM changes
    GROUP BY address
)"""

_BALANCES: Final = f"""
{_MOVED}
SELECT address, balance::VARCHAR AS raw
FROM balances
WHERE balance <> 0::BIGNUM
"""

_LARGEST: Final = f"""
{_MOVED}
SELECT
    address,
    balance::VARCHAR AS raw,
    (SELECT (-balance)::VARCHAR FROM balances WHERE address = $zero) AS supply
FROM balances
WHERE address <> $zero
    AND balance > 0::BIGNUM
    AND ($below IS NULL OR balance < $below::BIGNUM OR (balance = $below::BIGNUM AND address > $beyond))
ORDER BY balance DESC, address
LIMIT $most
"""

_EXACT: Final = Context(prec=400)


@dataclass(frozen=True)
class Balances:
    """Balances of a token in raw integers.

    ``supply`` is what was minted less what was burnt to the zero address; ``holders`` (address, balance > 0) by falling
    balance, then address; ``negative`` the addresses that a lossy history leaves below nothing.
    """

    supply: int
    holders: list[tuple[str, int]]
    negative: list[tuple[str, int]]

    def share(self, amount: int) -> float:
        """An amount as a part of the supply, 0 to 1. A lossy history can hold more than its supply: then 1."""
        return min(1.0, amount / self.supply) if self.supply > 0 else 0.0


def mappable_token(store: Store, chain: str, token_address: str) -> TokenInfo:
    """The token's metadata. Raises ``UnknownToken``, or ``UnsupportedToken`` where no map can be made for it."""
    token = store.token(chain, token_address)
    if token is None:
        raise UnknownToken(f"token {token_address} on chain {chain} is not known")
    if token.unsupported:
        raise UnsupportedToken(f"no map can be made for {token.name} ({token_address} on {chain}): {token.unsupported}")
    return token


def balances_as_of(store: Store, chain: str, token_address: str, as_of: datetime) -> Balances:
    """All balances of a token at the end of the second ``as_of``."""
    rows = store.query(_BALANCES, {"chain": chain, "token": token_address, "as_of": to_unix(as_of)})
    found = dict(zip(rows["address"].to_pylist(), map(int, rows["raw"].to_pylist()), strict=True))
    supply = -found.pop(ZERO_ADDRESS, 0)
    by_size = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return Balances(
        supply, [item for item in by_size if item[1] > 0], [item for item in reversed(by_size) if item[1] < 0]
    )


def largest_balances(
    store: Store, chain: str, token_address: str, as_of: datetime, limit: int, after: tuple[int, str] | None = None
) -> Balances:
    """The supply and the ``limit`` largest holders at the end of the second ``as_of``; negative balances are left out.

    With ``after``, a balance and an address, the holders that come after these in the order of ``Balances``. Where
    there are none the supply is 0, for nobody asks for a share of it.
    """
    below, beyond = (str(after[0]), after[1]) if after else (None, None)
    bound = {"chain": chain, "token": token_address, "as_of": to_unix(as_of), "zero": ZERO_ADDRESS}
    rows = store.query(_LARGEST, bound | {"below": below, "beyond": beyond, "most": limit}).to_pylist()
    supply = int(rows[0]["supply"] or 0) if rows else 0
    return Balances(supply, [(row["address"], int(row["raw"])) for row in rows], [])


def nobody_holds(token: TokenInfo, as_of: datetime) -> NoHolders:
    """The error to raise where nobody holds the token then."""
    return NoHolders(f"nobody holds {token.name} ({token.address} on {token.chain}) at {as_of.isoformat()}Z")


def holdings_as_of(store: Store, token: TokenInfo, as_of: datetime) -> Balances:
    """As ``balances_as_of``. Raises ``NoHolders`` when nobody holds the token then."""
    balances = balances_as_of(store, token.chain, token.address, as_of)
    if not balances.holders:
        raise nobody_holds(token, as_of)
    return balances


def token_units(raw: int, decimals: int) -> Decimal:
    """A raw integer amount in token units, exact."""
    return _EXACT.scaleb(Decimal(raw), -decimals)


def negative_balances(store: Store, chain: str, token_address: str, as_of: datetime) -> pa.Table:
    """Addresses that the stored history leaves below nothing: columns address, balance (raw integer as text).

    Any row means that transfers are missing from the history (or that amounts were rounded at its source).
    """
    negative = balances_as_of(store, chain, token_address, as_of).negative
    return pa.table(
        {
            "address": pa.array([address for address, _ in negative], pa.string()),
            "balance": pa.array([str(balance) for _, balance in negative], pa.string()),
        }
    )
