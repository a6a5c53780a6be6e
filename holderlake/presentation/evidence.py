"""The evidence that joins the holders of a map's clusters: their links, and sentences about the strongest ones.

The explorer's page and the service's picture show them, each with its own way to write names, amounts and units. So a
sentence has ``{name 5}`` instead of the name of node 5, and ``{sum 7 12.5}`` instead of the amount 12.5 in the unit of
link 7. Nodes and links have numbers from 0, in the order of their tables.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.chains import BURN_ADDRESSES
from holderlake.core.contract.figures import NOTHING, share_text
from holderlake.core.units import counted

_NOTABLE_BURN: Final = 0.01
_NAME_FACTOR: Final = 2
"""Factor of the weight of transfers with a named wallet, because a reader recognises it."""
_WEAK: Final = 0.01
"""A member that moved a smaller part of its amount is weakly joined."""
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

NODE_COLUMNS: Final = (
    *("address", "time_node", "kind", "label", "share", "amount"),
    *("cluster_id", "is_shown_on_map", "is_cex", "is_dex", "is_contract"),
)
"""The columns of nodes that evidence is made of."""

Row = Mapping[str, Any]
_Numbers = npt.NDArray[np.int64]


class _Cause(NamedTuple):
    """The links of a cluster, and those of the hub that moved the largest amount. The strongest link is first."""

    links: _Numbers
    hub_links: _Numbers
    hub: int


def evidence_of(
    nodes: Sequence[Row],
    links: pa.Table,
    clusters: Sequence[Row],
    token: tuple[str, str],
    as_of: datetime,
    node_of: Mapping[str, int] | None = None,
) -> tuple[tuple[str, str], dict[str, list[Any]]]:
    """Return the sentence about a map, and columns about its clusters. ``token`` is the map's chain and token address.

    ``nodes`` are in the order of their rank, ``clusters`` in that of their number. ``links`` has ``amount`` (text),
    ``transfers``, ``first_date`` and ``last_date`` (a time, or unix seconds). Links that began after ``as_of`` (UTC,
    without zone) are no evidence. ``node_of`` has the numbers of the nodes that other addresses belong to; such a node
    may have ``share_in_cluster``, the part of its share that is in its cluster.

    The sentence has two parts: one without its full stop, and the notes that follow. The columns have for each cluster
    its ``sentence``, the numbers of its ``links``, the strongest first, and ``strongest``, the number of the link that
    the sentence is about; None without links.
    """
    evidence = _Evidence(nodes, links, node_of or {}, token, as_of)
    causes = evidence.causes()
    descriptions = [evidence.description(cluster, causes.get(cluster["cluster_id"])) for cluster in clusters]
    burnt = sum(row["share"] or 0.0 for row in nodes if row["kind"] != "time" and row["address"] in BURN_ADDRESSES)
    holders = ((f"{{name {number}}}", row) for number, row in enumerate(nodes) if row["kind"] == "top_holder")
    drawn_holders = [(name, row) for name, row in holders if row["is_shown_on_map"] is not False]
    notes = [f"{share_text(burnt)} is burnt."] if burnt >= _NOTABLE_BURN else []
    finding = ""
    if descriptions:
        finding, weakness, _ = descriptions[0]
        notes = [*filter(None, [weakness]), *notes]
        lone, share = next(
            ((name, row["share"] or 0.0) for name, row in drawn_holders if row["cluster_id"] is None), ("", 0.0)
        )
        if share > clusters[0]["share"]:
            finding = f"{lone} alone holds {share_text(share)}; {finding}"
    elif drawn_holders:
        largest, share = drawn_holders[0][0], drawn_holders[0][1]["share"]
        part = NOTHING if share is None else share_text(share)
        finding = f"Nothing links the {counted(len(drawn_holders), 'drawn holder')}; the largest, {largest}, has {part}"
    elif notes:
        finding, notes = notes[0].removesuffix("."), []
    columns = {name: [column[name] for *_, column in descriptions] for name in ("sentence", "links", "strongest")}
    return (finding, " ".join(notes)), columns


def day(when: datetime) -> str:
    """Return the day of an instant, such as 1 Sep 2026."""
    return f"{when.day} {_MONTHS[when.month - 1]} {when.year}"


def kind_of(row: Row) -> str:
    """Return the kind of an address that belongs to no single owner; ``hub`` is one of the busiest wallets."""
    if row["address"] in BURN_ADDRESSES:
        return "burn"
    flags = {"exchange": row["is_cex"], "pool": row["is_dex"], "contract": row["is_contract"]}
    return next((kind for kind, is_set in flags.items() if is_set), "hub")


class _Evidence:
    """The nodes of a map, and its links as arrays. NaN is unknown, and -1 is an end of a link that is no node."""

    def __init__(
        self, nodes: Sequence[Row], links: pa.Table, node_of: Mapping[str, int], token: tuple[str, str], as_of: datetime
    ) -> None:
        holders = {row["address"]: row for row in nodes if row["kind"] != "time"}  # they may describe a time node
        self._nodes = [
            row
            if row["kind"] != "time"
            else {name: row[name] or holders.get(row["address"], row)[name] for name in row}
            for row in nodes
        ]
        self._kind = np.array([*(row["kind"] for row in nodes), ""])
        self._cluster = np.array([*((row["kind"] != "time" and row["cluster_id"]) or 0 for row in nodes), 0])
        self._is_named = [bool(row["label"]) and _is_visible(row["label"]) for row in self._nodes]
        window, self._amount, transfers = (
            links[name].cast(pa.float64()).to_numpy() for name in ("time_node", "amount", "transfers")
        )
        self._until, self._transfers, self._is_in_window = np.datetime64(as_of), np.nan_to_num(transfers), window > 0
        self._first_date, self._last_date = (
            links[name].cast(pa.timestamp("s"), safe=False).to_numpy() for name in ("first_date", "last_date")
        )
        numbers = {(row["address"], row["time_node"]): number for number, row in enumerate(nodes)}
        numbers |= {(address, None): number for address, number in node_of.items()}
        ends = []
        for side in ("from_address", "to_address"):
            texts, codes = _codes(links[side])
            end = np.array([numbers.get((text, None), -1) for text in texts], np.int64)[codes]
            for row in np.flatnonzero(self._is_in_window).tolist():
                end[row] = numbers.get((texts[codes[row]], int(window[row])), end[row])
            ends.append(end)
        self._sender, self._receiver = ends
        self._tokens = links.select(["transfer_chain", "transfer_token"])
        is_own = pc.and_(*(pc.equal(*pair) for pair in zip(self._tokens.columns, token, strict=True)))
        self._is_own = pc.fill_null(is_own, False).to_numpy()

    def causes(self) -> dict[int, _Cause]:
        """Return what joins each cluster, by its number.

        A group has the links of one hub: of a holder those that it sent, of a magic node all with holders, and of a
        time node all with members, if there are several. The group that moved most of the map's token is the strongest.
        """
        sender, receiver, size = self._sender, self._receiver, len(self._kind)
        is_time, is_magic = self._kind == "time", self._kind == "magic"
        is_to_hub = is_time[receiver] | (is_magic[receiver] & ~is_magic[sender] & ~is_time[sender])
        hub, member = np.where(is_to_hub, receiver, sender), np.where(is_to_hub, sender, receiver)
        is_inside = is_time[hub] | (~self._is_in_window & (self._cluster[hub] == self._cluster[member]))
        is_known = ~(self._first_date > self._until) & (sender != receiver)
        rows = np.flatnonzero(is_inside & is_known & (self._cluster[member] > 0))
        hub, member, amount, is_own = hub[rows], member[rows], np.nan_to_num(self._amount[rows]), self._is_own[rows]
        keys, first_link, group = np.unique(self._cluster[member] * size + hub, return_index=True, return_inverse=True)
        clusters, hubs = keys // size, keys % size
        other_count = np.bincount(np.unique(group * size + member) // size, minlength=len(keys))
        is_named = np.array([*self._is_named, False]) & ~is_time
        has_name = is_named[hubs] | (np.bincount(group, is_named[member], len(keys)) > 0)
        weight = np.bincount(group, is_own * amount, len(keys)) * np.where(has_name, _NAME_FACTOR, 1)
        is_group = ~is_time[hubs] | (other_count > 1)
        strength = np.lexsort((-self._transfers[rows], -amount, ~is_own))
        strength = strength[is_group[group[strength]]]
        rows, group = rows[strength], group[strength]
        causes: dict[int, _Cause] = {}
        for number in np.lexsort((first_link, is_time[hubs], -other_count, -weight)):
            if is_group[number] and clusters[number] not in causes:
                links, hub_links = rows[clusters[group] == clusters[number]], rows[group == number]
                causes[int(clusters[number])] = _Cause(links, hub_links, int(hubs[number]))
        return causes

    def description(self, cluster: Row, cause: _Cause | None) -> tuple[str, str, dict[str, Any]]:
        """Return what a cluster holds and what joins it, a sentence if that is weak, and the cluster's columns."""
        members = np.flatnonzero((self._cluster == cluster["cluster_id"]) & (self._kind != "magic")).tolist()
        shares = {number: share for number in members if (share := self._share_in_cluster(number)) is not None}
        largest = max(shares, key=shares.__getitem__, default=-1)
        part = shares.get(largest, 0.0)
        without = share_text(cluster["share"] - part)
        together = f"{counted(cluster['holder_count'], 'wallet')} together hold {share_text(cluster['share'])}"
        holds_most = cluster["holder_count"] > 2 and cluster["share"] / 2 < part <= cluster["share"]
        condition = f" ({without} without {{name {largest}}})" if holds_most else ""
        if cause is None:
            sentence = "The source gives no transfers that show why these holders are together."
            return together + condition, "", {"sentence": sentence, "links": [], "strongest": None}
        links, hub_links, hub = cause
        weakness, kind, ends = "", kind_of(self._nodes[hub]), {*self._ends(hub_links), hub}
        joins = links[(self._sender[links] == largest) | (self._receiver[links] == largest)]
        moved_amount, balance = np.nansum(self._amount[joins]), float((shares and self._nodes[largest]["amount"]) or 0)
        if len(joins) and self._is_own[joins].all() and moved_amount < _WEAK * balance:
            little = share_text(moved_amount / balance).replace("<", "less than ")
            weakness = f"Weak: the transfers that link {{name {largest}}} are {little} of its balance."
            condition = f", if {{name {largest}}} is one of them (without it {without})"
        elif self._kind[hub] == "time":
            weakness = f"Weak: strangers can use {'an' if kind == 'exchange' else 'a'} {kind} in the same minutes."
        tokens = self._tokens.take(hub_links).to_pylist()
        token_links, joined_count = hub_links[[token == tokens[0] for token in tokens]], self._count_holders(ends)
        sentences = [self._reason(hub, joined_count, token_links), weakness]
        if len(joins) and largest not in ends:
            of_supply = share_text(self._nodes[largest]["share"] or part)
            member_text = f"The largest member, {{name {largest}}} with {of_supply} of the supply"
            sentences.insert(1, f"{member_text}, {self._movement(largest, joins[:1])}.")
        how = self._joining(hub, joined_count, token_links, cluster["holder_count"])
        columns = {
            "sentence": " ".join(filter(None, sentences)),
            "links": links.tolist(),
            "strongest": int(hub_links[0]),
        }
        return f"{together}{condition}, {how}", weakness, columns

    def _share_in_cluster(self, number: int) -> float | None:
        """Return what a node has of its cluster's share: of an owner, the wallets in the cluster."""
        row = self._nodes[number]
        part: float | None = row.get("share_in_cluster")
        return row["share"] if part is None else part

    def _ends(self, rows: _Numbers) -> set[int]:
        return {*self._sender[rows].tolist(), *self._receiver[rows].tolist()}

    def _count_holders(self, numbers: Collection[int]) -> int:
        return sum(self._kind[number] not in ("magic", "time") for number in numbers)

    def _days(self, rows: _Numbers) -> tuple[str, str]:
        """Return the first and last day of transfers; empty if they are unknown, or the last one is after the map."""
        first_date, last_date = np.fmin.reduce(self._first_date[rows]), np.fmax.reduce(self._last_date[rows])
        if np.isnat(first_date) or not last_date <= self._until:
            return "", ""
        return day(first_date.item()), day(last_date.item())

    def _joining(self, hub: int, joined_count: int, token_links: _Numbers, holders: int) -> str:
        """Return how a hub joins ``joined_count`` of the ``holders`` of a cluster, by its links of one token."""
        begin, end = self._days(token_links)
        when = "" if not end else f" on {end}" if begin == end else f" from {_begin(begin, end)} to {end}"
        name = f"{{name {hub}}}" if self._is_named[hub] else ""

        def part_text(count: int) -> str:
            return f"{count} of them " if count < holders else ""

        if self._kind[hub] == "time":
            user = name or f"one {kind_of(self._nodes[hub])}"
            return f"if transfers of {user} in the same minutes{when} link {part_text(joined_count).strip() or 'them'}"
        member = f"another member ({name})" if name else "another member"
        funder = (name or "one wallet") if self._kind[hub] == "magic" else member
        funded = self._count_holders({*self._receiver[token_links[self._sender[token_links] == hub]].tolist()})
        paying = self._count_holders({*self._sender[token_links[self._receiver[token_links] == hub]].tolist()})
        if funded > 1:
            return f"{part_text(funded)}funded by {funder}{when}"
        if paying > 1:
            return f"{part_text(paying)}paying into {funder}{when}"
        return f"{part_text(joined_count)}linked by transfers{when}"

    def _reason(self, hub: int, joined_count: int, token_links: _Numbers) -> str:
        """Return the sentence about a hub and its links of one token."""
        name, holders, act = f"{{name {hub}}}", counted(joined_count, "holder"), self._movement(hub, token_links)
        if self._kind[hub] == "time":
            return f"{holders} used {name} at the same time: it {act}."
        return f"The wallet {name} links {holders}: it {act}." if self._kind[hub] == "magic" else f"{name} {act}."

    def _movement(self, node: int, token_links: _Numbers) -> str:
        """Return a text such as ``got 5 KELP from Ada and sent 4 KELP to 3 holders on 1 May 2026``."""
        got, sent = token_links[self._receiver[token_links] == node], token_links[self._sender[token_links] == node]
        parts = []
        for verb, way, moves in (("got", "from", got), ("sent", "to", sent)):
            if len(moves):
                amount = self._amount[moves[0]] if len(moves) == 1 else np.nansum(self._amount[moves])
                whom = self._listed(self._ends(moves) - {node})
                parts.append(f"{verb} {{sum {moves[0]} {'' if np.isnan(amount) else amount}}} {way} {whom}")
        transfers = int(self._transfers[token_links].sum())
        begin, end = self._days(token_links)
        when = "" if not end else f", the last on {end}" if begin != end and transfers > 1 else f" on {end}"
        count = f" in {counted(transfers, 'transfer')}" if transfers > 1 else ""
        return f"{' and '.join(parts)}{count}{when}"

    def _listed(self, numbers: set[int]) -> str:
        """Return the name of one node, or the count of several, such as ``9 holders and 1 linking wallet``."""
        holders = self._count_holders(numbers)
        counts = {"holder": holders, "linking wallet": len(numbers) - holders}
        several = " and ".join(counted(count, what) for what, count in counts.items() if count)
        return several if len(numbers) > 1 else f"{{name {min(numbers)}}}"


def _is_visible(text: str) -> bool:
    return any(unicodedata.category(letter)[0] not in "CZ" for letter in text)


def _codes(column: pa.ChunkedArray) -> tuple[list[Any], _Numbers]:
    """Return the distinct texts of a column, and the place of each row's text among them."""
    encoded = column.combine_chunks().dictionary_encode("encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()


def _begin(begin: str, end: str) -> str:
    """Return the first day of a range without the month and year that are also those of its last day."""
    words, end_words = begin.split(), end.split()
    while words[-1] == end_words.pop():
        words.pop()
    return " ".join(words)
