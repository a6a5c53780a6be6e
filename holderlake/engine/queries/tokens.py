"""Chains and tokens of the store: metadata, numbers of transfers, and search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from holderlake.core.contract.chains import KNOWN_CHAINS, SERVED_CHAINS, normalise_address
from holderlake.core.contract.tables import TABLES, build
from holderlake.core.contract.times import from_unix, utc_now
from holderlake.engine.catalog.tokens import read_chains
from holderlake.engine.records import TokenInfo
from holderlake.engine.store.store import Store


def chains_table(store: Store) -> pa.Table:
    """Return the lake's ``chains`` rows: the contract's chains, then further chains of the store's tokens."""
    further_chains = [chain for chain in store.read(read_chains) if chain not in SERVED_CHAINS]
    return build(TABLES["chains"], [_chain_row(chain) for chain in (*SERVED_CHAINS, *further_chains)])


def tokens_table(store: Store, keys: Sequence[tuple[str, str]], stats: bool = False) -> pa.Table:
    """Return the lake's ``tokens`` rows in the order of the keys (chain, address). Unknown tokens are left out.

    The columns ``transfers_count``, ``min_date`` and ``max_date`` are null unless ``stats`` is true.
    """
    stored_tokens = store.tokens(keys)
    return _tokens(store, (stored_tokens[key] for key in keys if key in stored_tokens), stats)


def search_tokens(store: Store, text: str, limit: int = 50) -> pa.Table:
    """Return the lake's ``tokens`` rows of at most ``limit`` tokens that match an address, symbol or name, the best
    first."""
    return _tokens(store, store.search(normalise_address(text), limit), stats=False)


def _tokens(store: Store, tokens: Iterable[TokenInfo], stats: bool) -> pa.Table:
    now = utc_now()
    rows = [
        {
            "chain": token.chain,
            "as_of": now,
            "token_address": token.address,
            "name": token.name,
            "symbol": token.symbol,
            "is_indexed": token.is_indexed,
            "img_url": token.img_url,
            **(_statistics(store, token) if stats else {}),
        }
        for token in tokens
    ]
    return build(TABLES["tokens"], rows)


def _statistics(store: Store, token: TokenInfo) -> dict[str, Any]:
    history = store.history(token.chain, token.address)
    if history is None:
        return {"transfers_count": 0}
    return {
        "transfers_count": history.transfers,
        "min_date": from_unix(history.first_time),
        "max_date": from_unix(history.last_time),
    }


def _chain_row(chain: str) -> dict[str, Any]:
    known_chain = KNOWN_CHAINS.get(chain)
    return {
        "chain": chain,
        "as_of": utc_now(),
        "name": known_chain.name if known_chain else chain,
        "dexscreener_id": known_chain.dexscreener_id if known_chain else None,
        "coingecko_id": known_chain.coingecko_id if known_chain else None,
    }
