"""Grouped transfers: between the nodes of a map, between named addresses, and through an exchange in a time window.

Grouped by (from, to, token) as the seed says (2.4); transfers to oneself and of nothing make no relationship (see
``addresses``), and one between two supernodes is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from contract.models import GROUPED_TRANSFER
from contract.tables import TABLES
from contract.times import to_unix
from engine.addresses import address_facts
from engine.adjacency import Run
from engine.arrays import spans
from engine.dictionary import UNKNOWN
from engine.manifest import View
from engine.parts import Moves, summed
from engine.records import Rules, TokenInfo
from engine.store import Store
from engine.tables import Columns, repeated, table_of
from engine.words import Array, limbs, to_ints

TokenKeys = Sequence[tuple[str, str]]


class Link(NamedTuple):
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
class TimeNode:
    """An exchange in one window of time, with the links of the shown holders that used it then."""

    address: str
    links: list[Link]


def counted_tokens(store: Store, own: tuple[str, str] | None) -> list[tuple[str, str]]:
    """The tokens whose transfers count: the indexed ones, and the map's own."""
    return sorted({*store.indexed_tokens(), *([own] if own else ())})


@dataclass(frozen=True)
class Entries:
    """Transfers that some addresses have part in, of the tokens that count, not to oneself: ``owners`` are places in
    the list of addresses, ``inward`` where the owner received. One between two of the addresses stands twice."""

    addresses: Array
    owners: Array
    others: Array
    tokens: Array
    inward: Array
    times: Array

    def at(self, places: Array) -> Entries:
        """Some of them."""
        return Entries(
            self.addresses,
            self.owners[places],
            self.others[places],
            self.tokens[places],
            self.inward[places],
            self.times[places],
        )

    def ends(self) -> tuple[Array, Array]:
        """Senders and receivers."""
        own = self.addresses[self.owners]
        return np.where(self.inward, self.others, own), np.where(self.inward, own, self.others)


@dataclass(frozen=True)
class Met:
    """Addresses that shown holders deal with: how many of these, and in how many transfers."""

    addresses: Array
    holders: Array
    transfers: Array


def counting(view: View, tokens: TokenKeys) -> Array:
    """For every token's number, whether its transfers count."""
    counts = np.zeros(max(view.manifest.numbers.values(), default=0) + 1, np.bool_)
    counts[[view.manifest.numbers[key] for key in tokens if key in view.manifest.numbers]] = True
    return counts


def entries_of(view: View, addresses: Array, counts: Array, second: int) -> Entries:
    """All that the addresses sent and received up to the second, of the tokens that count."""
    nobody, nothing = np.empty(0, np.int32), np.empty(0, np.bool_)
    pieces = [_of_run(run, addresses, counts, second) for run in view.runs] if len(addresses) else []
    pieces = pieces or [Entries(addresses, nobody.astype(np.int64), nobody, nobody, nothing, nobody.astype(np.uint32))]
    return pieces[0] if len(pieces) == 1 else _together(addresses, pieces)


def joined_entries(pieces: Sequence[Entries]) -> Entries:
    """The entries of several lists of addresses as those of one."""
    firsts = np.cumsum([0, *(len(piece.addresses) for piece in pieces)])
    moved = [replace(piece, owners=piece.owners + first) for piece, first in zip(pieces, firsts, strict=False)]
    return _together(np.concatenate([piece.addresses for piece in pieces]), moved)


def _together(addresses: Array, pieces: Sequence[Entries]) -> Entries:
    columns = ([getattr(piece, name) for piece in pieces] for name in ("owners", "others", "tokens", "inward", "times"))
    return Entries(addresses, *(np.concatenate(column) for column in columns))


def _of_run(run: Run, addresses: Array, counts: Array, second: int) -> Entries:
    starts, ends = run.entries(addresses)
    cuts = run.upto(starts, ends, second)
    places, owners = spans(starts, cuts), np.repeat(np.arange(len(addresses)), cuts - starts)
    kinds, others = run.kinds[places], run.others[places]
    tokens = kinds >> 1
    kept = np.flatnonzero(counts[tokens] & (others != addresses[owners]))
    inward = (kinds[kept] & 1).astype(np.bool_)
    return Entries(addresses, owners[kept], others[kept], tokens[kept], inward, run.times[places[kept]])


def met_by(entries: Entries) -> Met:
    """Every address outside the entries' own that deals with one inside, in no order."""
    outside = np.flatnonzero(~among(entries.others, entries.addresses))
    pairs = np.sort((entries.others[outside].astype(np.int64) << 32) | entries.owners[outside])
    firsts = np.flatnonzero(np.concatenate([pairs[:1] >= 0, pairs[1:] != pairs[:-1]]))
    transfers, pairs = np.diff(np.append(firsts, len(pairs))), pairs[firsts]
    others = (pairs >> 32).astype(np.int32)
    starts = np.flatnonzero(np.concatenate([others[:1] >= 0, others[1:] != others[:-1]]))
    sums = np.add.reduceat(transfers, starts) if len(starts) else transfers
    return Met(others[starts], np.diff(np.append(starts, len(others))), sums)


def among(addresses: Array, few: Array) -> Array:
    """For each of the addresses, whether it is one of the few."""
    if not len(few):
        return np.zeros(len(addresses), np.bool_)
    if len(addresses) > 4_096:
        marks = np.zeros(int(max(few.max(), addresses.max())) + 1, np.bool_)
        marks[few] = True
        marked: Array = marks[addresses]
        return marked
    ordered = np.sort(few).astype(addresses.dtype)
    places = np.minimum(np.searchsorted(ordered, addresses), len(ordered) - 1)
    found: Array = ordered[places] == addresses
    return found


class Chosen(NamedTuple):
    """Transfers that make links, each once; a set (the links of a map, those of a time node) makes links of its own."""

    senders: Array
    receivers: Array
    tokens: Array
    times: Array
    sets: Array


def links_of(view: View, pieces: Sequence[Chosen]) -> list[tuple[int, Link]]:
    """The transfers as links, with the number of their set, by that, then by (from, to, chain, token)."""
    senders, receivers, tokens, times, sets = (np.concatenate(column) for column in zip(*pieces, strict=True))
    if not len(senders):
        return []
    ends = (senders.astype(np.int64) << 32) | receivers
    order = np.lexsort((times, tokens, ends, sets))
    ends, tokens, sets = ends[order], tokens[order].astype(np.int64), sets[order]
    times = times[order].astype(np.int64)
    changed = (ends[1:] != ends[:-1]) | (tokens[1:] != tokens[:-1]) | (sets[1:] != sets[:-1])
    is_first = np.concatenate([[True], changed])
    starts = np.flatnonzero(is_first)
    lasts = np.append(starts[1:], len(ends)) - 1
    values = _sums(view, ends, tokens, times, np.cumsum(is_first) - 1)
    senders, receivers = ends[starts] >> 32, ends[starts] & 0xFFFFFFFF
    found = np.unique(np.concatenate([senders, receivers]))
    texts = dict(zip(found.tolist(), view.dictionary.texts(found), strict=True))
    keys = view.manifest.keys
    columns = (sets[starts], senders, receivers, tokens[starts], lasts - starts + 1, times[starts], times[lasts])
    links = [
        (number, Link(texts[sender], texts[receiver], *keys[token], value, count, first, last))
        for (number, sender, receiver, token, count, first, last), value in zip(
            zip(*(column.tolist() for column in columns), strict=True), values, strict=True
        )
    ]
    return sorted(links, key=_place)


def _place(numbered: tuple[int, Link]) -> tuple[int, str, str, str, str]:
    number, link = numbered
    return number, link.from_address, link.to_address, link.chain, link.token_address


def _sums(view: View, ends: Array, tokens: Array, times: Array, groups: Array) -> list[int]:
    """What the transfers of each group moved together: their values are found by token and second in the parts."""
    sums = [0] * (int(groups[-1]) + 1)
    for token in np.unique(tokens).tolist():
        mine = np.flatnonzero(tokens == token)
        # several transfers in one second are found together
        once = mine[np.concatenate([[True], (np.diff(groups[mine]) != 0) | (np.diff(times[mine]) != 0)])]
        for part in view.parts_of(token):
            _add_values(sums, part.moves, ends[once], times[once], groups[once])
    return sums


def _add_values(sums: list[int], moves: Moves, ends: Array, times: Array, groups: Array) -> None:
    if not len(moves) or times.max() < moves.times[0] or times.min() > moves.times[-1]:
        return
    limits = np.iinfo(moves.times.dtype)
    seconds = np.clip(times, limits.min, limits.max).astype(moves.times.dtype)
    starts = np.searchsorted(moves.times, seconds, side="left")
    stops = np.searchsorted(moves.times, seconds, side="right")
    places, asked = spans(starts, stops), np.repeat(np.arange(len(times)), stops - starts)
    same = (moves.senders[places].astype(np.int64) << 32) | moves.receivers[places]
    hits = np.flatnonzero(same == ends[asked])
    if len(hits):
        found, totals = summed(groups[asked[hits]], limbs(moves.values[places[hits]]))
        for group, value in zip(found.tolist(), to_ints(totals), strict=True):
            sums[group] += value


def links_among(store: Store, addresses: Collection[str], tokens: TokenKeys, as_of: datetime) -> list[Link]:
    """Links among the addresses, by (from, to, token)."""
    view = store.view()
    numbers = view.dictionary.find(list(addresses))
    numbers = np.unique(numbers[numbers != UNKNOWN]).astype(np.int32)
    entries = entries_of(view, numbers, counting(view, tokens), to_unix(as_of))
    return [link for _, link in links_of(view, [within(entries, numbers[:0])])]


def within(entries: Entries, supernodes: Array) -> Chosen:
    """The transfers among the entries' own addresses, but for those between two of the supernodes, as set -1."""
    inside = entries.at(np.flatnonzero(~entries.inward & among(entries.others, entries.addresses)))
    senders, receivers = inside.ends()
    if len(supernodes):
        kept = np.flatnonzero(~(among(senders, supernodes) & among(receivers, supernodes)))
        inside, senders, receivers = inside.at(kept), senders[kept], receivers[kept]
    return Chosen(senders, receivers, inside.tokens, inside.times, np.full(len(senders), -1))


def windows_of(
    view: View, rules: Rules, entries: Entries, exchanges: Array, supernodes: Array
) -> tuple[list[str], Chosen]:
    """The exchange of each window of time that enough of the entries' addresses share, the most shared first, at most
    ``time_limit``; and the transfers of each window, as sets from 0. What is between two supernodes is dropped before
    it is counted."""
    uses = entries.at(np.flatnonzero(among(entries.others, exchanges)))
    own = uses.addresses[uses.owners]
    uses = uses.at(np.flatnonzero(~(among(own, supernodes) & among(uses.others, supernodes))))
    if not len(uses.owners):
        return [], Chosen(*uses.ends(), uses.tokens, uses.times, uses.owners)
    window = uses.times.astype(np.int64) // rules.time_window
    order = np.lexsort((uses.owners, window, uses.others))
    uses, window = uses.at(order), window[order]
    is_first = np.concatenate([[True], (np.diff(uses.others) != 0) | (np.diff(window) != 0)])
    starts = np.flatnonzero(is_first)
    is_new = is_first | np.concatenate([[True], np.diff(uses.owners) != 0])
    wallets = np.add.reduceat(is_new.astype(np.int64), starts)
    shared = np.flatnonzero(wallets >= rules.time_links)
    texts = view.dictionary.texts(uses.others[starts[shared]])
    windows = window[starts[shared]].tolist()
    ranked = sorted(zip((-wallets[shared]).tolist(), texts, windows, shared.tolist(), strict=True))[: rules.time_limit]
    place_of = np.full(len(starts), -1)
    place_of[[number for *_, number in ranked]] = np.arange(len(ranked))
    sets = place_of[np.cumsum(is_first) - 1]
    kept = np.flatnonzero(sets >= 0)
    chosen = uses.at(kept)
    return [text for _, text, *_ in ranked], Chosen(*chosen.ends(), chosen.tokens, chosen.times, sets[kept])


def without_supernode_pairs(links: Iterable[Link], supernodes: Collection[str]) -> list[Link]:
    """The links of which at least one end is no supernode (seed, 2.4 rule 3)."""
    return [link for link in links if link.from_address not in supernodes or link.to_address not in supernodes]


class TokenBook(Protocol):
    """What knows tokens, as the store does."""

    def tokens(self, keys: TokenKeys) -> Mapping[tuple[str, str], TokenInfo]:
        """Metadata of the tokens that are known among the keys."""


def link_columns(book: TokenBook, links: Sequence[Link]) -> Columns:
    """Links as the lake's relationship columns (see ``tables.table_of``)."""
    tokens = book.tokens(sorted({(link.chain, link.token_address) for link in links}))
    decimals = {key: token.decimals for key, token in tokens.items()}
    return {
        "from_address": [link.from_address for link in links],
        "to_address": [link.to_address for link in links],
        "rel_type": [GROUPED_TRANSFER] * len(links),
        "transfer_chain": [link.chain for link in links],
        "transfer_token": [link.token_address for link in links],
        "total_value": [(link.total_value, decimals[link.chain, link.token_address]) for link in links],
        "total_transfers": [link.total_transfers for link in links],
        "first_date": [link.first_time * 1_000_000 for link in links],
        "last_date": [link.last_time * 1_000_000 for link in links],
    }


def subgraph(store: Store, addresses: Sequence[str], context: tuple[str, str] | None, as_of: datetime) -> pa.Table:
    """All grouped transfers among the addresses, of indexed tokens and the context token.

    Columns as the lake's ``subgraph_transfers`` from ``from_address`` on.
    """
    facts = address_facts(store, addresses, as_of)
    supernodes = {address for address, fact in facts.items() if fact.is_supernode(store.rules)}
    links = links_among(store, addresses, counted_tokens(store, context), as_of)
    columns = link_columns(store, without_supernode_pairs(links, supernodes))
    common = {"chain": "", "as_of": to_unix(as_of) * 1_000_000, "address_set": ""}
    rows = table_of(TABLES["subgraph_transfers"], repeated(common, columns) | columns)
    return rows.drop_columns(list(common))
