"""Links (grouped transfers) with addresses as text: as objects, and as columns of the lake's tables.

``links`` computes links as arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from holderlake.core.contract.models import GROUPED_TRANSFER
from holderlake.core.contract.tables import TABLES
from holderlake.core.contract.times import to_unix
from holderlake.engine.files.dictionary import UNKNOWN
from holderlake.engine.files.entries import AddressOrder, TokenKeys, entries_of, token_mask
from holderlake.engine.files.listing import View
from holderlake.engine.maps.links import Links, Transfers, between_nodes
from holderlake.engine.numeric.bigint import Array, to_ints
from holderlake.engine.queries.addresses import supernodes_from
from holderlake.engine.queries.tables import Amounts, Columns, instants_of, table_of, texts_of
from holderlake.engine.store.store import Store


class Link(NamedTuple):
    """All transfers of one token from one address to another.

    ``total_value`` is the exact raw sum, ``total_transfers`` the number of transfers. ``first_time`` and ``last_time``
    are unix seconds. A link to or from a time node has the number of this time node on the map (``time_node``), and
    includes only the transfers in its window.
    """

    from_address: str
    to_address: str
    chain: str
    token_address: str
    total_value: int
    total_transfers: int
    first_time: int
    last_time: int
    time_node: int | None = None


def counted_tokens(store: Store, map_token: tuple[str, str] | None) -> list[tuple[str, str]]:
    """Return the tokens whose transfers count on a map: the indexed tokens, and the map's token ``map_token``."""
    return sorted({*store.indexed_tokens(), *([map_token] if map_token else ())})


def _links_among(view: View, names: AddressOrder, tokens: TokenKeys, seconds: Array, supernodes_from: Array) -> Links:
    entries = entries_of(view, names.numbers, token_mask(view, tokens), int(seconds[0]), names.numbers)
    entries = entries.at(np.flatnonzero(~entries.inward))
    senders, receivers = (names.places(ends) for ends in entries.ends())
    transfers = Transfers(senders, receivers, entries.tokens, entries.times)
    present = np.ones((len(names.numbers), 1), np.bool_)
    return between_nodes(view, names, transfers, seconds, present, supernodes_from)


def named_links(keys: Mapping[int, tuple[str, str]], links: Links, texts: Sequence[str]) -> list[Link]:
    """Return each link with addresses as text. ``texts`` has the address of each node, ``keys`` the tokens by
    number."""
    ends = (links.senders, links.receivers, links.tokens)
    figures = (links.counts, links.first_times, links.last_times, links.windows + 1)
    return [
        Link(texts[sender], texts[receiver], *keys[token], value, count, first_time, last_time, number or None)
        for (sender, receiver, token, count, first_time, last_time, number), value in zip(
            zip(*(column.tolist() for column in (*ends, *figures)), strict=True), to_ints(links.sums), strict=True
        )
    ]


def link_columns(store: Store, numbered: Mapping[int, tuple[str, str]], links: Links, texts: pa.Array) -> Columns:
    """Return the columns, by name, that the lake's tables of relationships have in common, with a row for each link.

    ``texts`` has the address of each node, ``numbered`` the tokens (chain, address) by number.
    """
    numbers, token_places = np.unique(links.tokens, return_inverse=True)
    keys = [numbered[number] for number in numbers.tolist()]
    tokens = store.tokens(keys)
    decimals = np.array([tokens[key].decimals for key in keys], np.int64)[token_places]
    chains, addresses = (pa.array([key[place] for key in keys], pa.string()) for place in (0, 1))
    return {
        "from_address": texts.take(pa.array(links.senders)),
        "to_address": texts.take(pa.array(links.receivers)),
        "rel_type": pa.repeat(pa.scalar(GROUPED_TRANSFER), len(token_places)),
        "transfer_chain": chains.take(pa.array(token_places)),
        "transfer_token": addresses.take(pa.array(token_places)),
        "total_value": Amounts(links.sums, decimals),
        "total_transfers": pa.array(links.counts),
        "first_date": instants_of(links.first_times),
        "last_date": instants_of(links.last_times),
    }


def subgraph(store: Store, addresses: Sequence[str], context: tuple[str, str] | None, as_of: datetime) -> pa.Table:
    """Return all grouped transfers among the addresses, of indexed tokens and of the token ``context``.

    Grouped transfers between two supernodes are left out (contract, 2.4 rule 3). The columns are those of the lake's
    ``subgraph_transfers`` from ``from_address`` on.
    """
    view, seconds = store.view(), np.array([to_unix(as_of)])
    numbers = view.dictionary.find(list(addresses))
    names = AddressOrder(view.dictionary, numbers[numbers != UNKNOWN])
    supernodes = supernodes_from(store, view, names.numbers, seconds)
    links = _links_among(view, names, counted_tokens(store, context), seconds, supernodes)
    columns = link_columns(store, view.listing.keys, links, texts_of(view, names.numbers))
    common = {"chain": "", "as_of": as_of, "address_set": ""}
    return table_of(TABLES["subgraph_transfers"], columns, common).drop_columns(list(common))
