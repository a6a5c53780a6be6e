"""Grouped transfers: between the nodes of a map, between named addresses, and through an exchange in a time window.

Grouped by (from, to, token) as the seed says (2.4); transfers to oneself and of nothing make no relationship (see
``addresses``), and one between two supernodes is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from contract.models import GROUPED_TRANSFER
from contract.tables import TABLES, amount_columns, build
from contract.times import from_unix, to_unix
from engine.addresses import address_facts
from engine.balances import token_units
from engine.store import Store

TokenKeys = Sequence[tuple[str, str]]

_MOVED: Final = """
counted AS (
    SELECT unnest($chains) AS chain, unnest($tokens) AS token_address
),
moved AS (
    SELECT chain, token_address, from_address, to_address, value::BIGNUM AS value, block_time
    FROM read_parquet($files) AS transfer SEMI JOIN counted USING (chain, token_address)
    WHERE block_time <= $as_of AND value <> '0' AND from_address <> to_address
)"""

_GROUP: Final = """
    from_address, to_address, chain, token_address,
    sum(value)::VARCHAR AS total_value,
    count(*) AS total_transfers,
    min(block_time) AS first_time,
    max(block_time) AS last_time"""

_AMONG: Final = f"""
WITH wanted AS (
    SELECT unnest($addresses) AS address
),
{_MOVED}
SELECT {_GROUP}
FROM moved
SEMI JOIN wanted AS sender ON from_address = sender.address
SEMI JOIN wanted AS receiver ON to_address = receiver.address
GROUP BY from_address, to_address, chain, token_address
ORDER BY from_address, to_address, chain, token_address
"""

_NEIGHBOURS: Final = f"""
WITH shown AS (
    SELECT unnest($addresses) AS address
),
{_MOVED},
links AS (
    SELECT to_address AS neighbour, from_address AS holder FROM moved SEMI JOIN shown ON from_address = shown.address
    UNION ALL
    SELECT from_address, to_address FROM moved SEMI JOIN shown ON to_address = shown.address
)
SELECT neighbour, count(DISTINCT holder) AS holders, count(*) AS transfers
FROM links
ANTI JOIN shown ON neighbour = shown.address
GROUP BY neighbour
ORDER BY holders DESC, transfers DESC, neighbour
"""

_IN_WINDOWS: Final = f"""
WITH shown AS (
    SELECT unnest($addresses) AS address
),
exchanges AS (
    SELECT unnest($exchanges) AS address
),
{_MOVED},
uses AS (
    SELECT *, from_address AS exchange, to_address AS wallet, block_time // $width AS time_window
    FROM moved SEMI JOIN exchanges ON from_address = exchanges.address SEMI JOIN shown ON to_address = shown.address
    UNION ALL
    SELECT *, to_address, from_address, block_time // $width
    FROM moved SEMI JOIN exchanges ON to_address = exchanges.address SEMI JOIN shown ON from_address = shown.address
),
kept AS (
    SELECT *
    FROM uses
    WHERE NOT (list_contains($supernodes, exchange) AND list_contains($supernodes, wallet))
),
shared AS (
    SELECT exchange, time_window, count(DISTINCT wallet) AS wallets
    FROM kept
    GROUP BY exchange, time_window
    HAVING count(DISTINCT wallet) >= $links
    ORDER BY wallets DESC, exchange, time_window
    LIMIT $most
)
SELECT exchange, time_window, wallets, {_GROUP}
FROM kept JOIN shared USING (exchange, time_window)
GROUP BY exchange, time_window, wallets, from_address, to_address, chain, token_address
ORDER BY wallets DESC, exchange, time_window, from_address, to_address, chain, token_address
"""


@dataclass(frozen=True)
class Link:
    """All transfers of one token from one address to another: exact raw sum, count, unix seconds of first and last."""

    from_address: str
    to_address: str
    chain: str
    token_address: str
    total_value: int
    total_transfers: int
    first_time: int
    last_time: int


@dataclass(frozen=True)
class Neighbour:
    """An address that shown holders deal with: how many of them, in how many transfers."""

    address: str
    holders: int
    transfers: int


@dataclass(frozen=True)
class TimeNode:
    """An exchange in one window of time, with the links of the shown holders that used it then."""

    address: str
    links: list[Link]


def counted_tokens(store: Store, own: tuple[str, str] | None) -> list[tuple[str, str]]:
    """The tokens whose transfers count: the indexed ones, and the map's own."""
    return sorted({*store.indexed_tokens(), *([own] if own else ())})


def links_among(store: Store, addresses: Collection[str], tokens: TokenKeys, as_of: datetime) -> list[Link]:
    """Links among the addresses, by (from, to, token)."""
    rows = store.query(_AMONG, {"addresses": list(addresses), **_bound(tokens, as_of)})
    return [_link(row) for row in rows.to_pylist()]


def neighbours(store: Store, shown: Collection[str], tokens: TokenKeys, as_of: datetime) -> list[Neighbour]:
    """Every address outside ``shown`` that deals with one inside, the most connected first."""
    rows = store.query(_NEIGHBOURS, {"addresses": list(shown), **_bound(tokens, as_of)})
    return [Neighbour(row["neighbour"], row["holders"], row["transfers"]) for row in rows.to_pylist()]


def time_nodes(
    store: Store,
    shown: Collection[str],
    exchanges: Collection[str],
    supernodes: Collection[str],
    tokens: TokenKeys,
    as_of: datetime,
) -> list[TimeNode]:
    """Each exchange and window that enough shown holders share, the most shared first, at most ``time_limit``.

    What is between two supernodes is dropped before it is counted.
    """
    rules = store.rules
    parameters = {
        "addresses": list(shown),
        "exchanges": list(exchanges),
        "supernodes": [address for address in (*shown, *exchanges) if address in supernodes],
        "width": rules.time_window,
        "links": rules.time_links,
        "most": rules.time_limit,
        **_bound(tokens, as_of),
    }
    grouped: dict[tuple[str, int], list[Link]] = {}
    for row in store.query(_IN_WINDOWS, parameters).to_pylist():
        grouped.setdefault((row["exchange"], row["time_window"]), []).append(_link(row))
    return [TimeNode(exchange, links) for (exchange, _), links in grouped.items()]


def without_supernode_pairs(links: Iterable[Link], supernodes: Collection[str]) -> list[Link]:
    """The links of which at least one end is no supernode (seed, 2.4 rule 3)."""
    return [link for link in links if link.from_address not in supernodes or link.to_address not in supernodes]


def link_rows(store: Store, links: Sequence[Link]) -> list[dict[str, Any]]:
    """Links as the lake's relationship columns, amounts in token units."""
    tokens = store.tokens(sorted({(link.chain, link.token_address) for link in links}))
    return [
        {
            "from_address": link.from_address,
            "to_address": link.to_address,
            "rel_type": GROUPED_TRANSFER,
            "transfer_chain": link.chain,
            "transfer_token": link.token_address,
            **amount_columns(
                "total_value", token_units(link.total_value, tokens[link.chain, link.token_address].decimals)
            ),
            "total_transfers": link.total_transfers,
            "first_date": from_unix(link.first_time),
            "last_date": from_unix(link.last_time),
        }
        for link in links
    ]


def subgraph(store: Store, addresses: Sequence[str], context: tuple[str, str] | None, as_of: datetime) -> pa.Table:
    """All grouped transfers among the addresses, of indexed tokens and the context token.

    Columns as the lake's ``subgraph_transfers`` from ``from_address`` on.
    """
    facts = address_facts(store, addresses, as_of)
    supernodes = {address for address, fact in facts.items() if fact.is_supernode(store.rules)}
    links = links_among(store, addresses, counted_tokens(store, context), as_of)
    common = {"chain": "", "as_of": as_of, "address_set": ""}
    rows = [common | row for row in link_rows(store, without_supernode_pairs(links, supernodes))]
    return build(TABLES["subgraph_transfers"], rows).drop_columns(list(common))


def _bound(tokens: TokenKeys, as_of: datetime) -> dict[str, Any]:
    return {
        "chains": [chain for chain, _ in tokens],
        "tokens": [address for _, address in tokens],
        "as_of": to_unix(as_of),
    }


def _link(row: dict[str, Any]) -> Link:
    return Link(
        row["from_address"],
        row["to_address"],
        row["chain"],
        row["token_address"],
        int(row["total_value"]),
        row["total_transfers"],
        row["first_time"],
        row["last_time"],
    )
