"""The holders of a token as of any second, by rank."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from contract.tables import TABLES, amount_columns, build
from engine.addresses import AddressFacts, address_facts
from engine.balances import Balances, holdings_as_of, mappable_token, token_units
from engine.records import TokenInfo
from engine.store import Store


def holders_as_of(
    store: Store, chain: str, token_address: str, as_of: datetime, limit: int, details: bool = False
) -> pa.Table:
    """The lake's ``holders`` rows: the ``limit`` largest, with address details or nulls in their place.

    Raises ``UnknownToken``, ``UnsupportedToken`` or ``NoHolders``.
    """
    token = mappable_token(store, chain, token_address)
    balances = holdings_as_of(store, token, as_of)
    addresses = [address for address, _ in balances.holders[:limit]]
    facts = address_facts(store, addresses, as_of, chain) if details else {}
    common = {"chain": chain, "as_of": as_of, "token_address": token_address}
    return build(TABLES["holders"], [common | row for row in holding_rows(store, token, balances, limit, facts)])


def holding_rows(
    store: Store, token: TokenInfo, balances: Balances, limit: int, facts: Mapping[str, AddressFacts]
) -> list[dict[str, Any]]:
    """Rank, address, amount, share and, where facts are given, details of the largest holders."""
    return [
        {
            "rank": rank,
            "address": address,
            **amount_columns("amount", token_units(balance, token.decimals)),
            "share": balances.share(balance),
            **(facts[address].details(store.rules) if address in facts else {}),
        }
        for rank, (address, balance) in enumerate(balances.holders[:limit], start=1)
    ]
