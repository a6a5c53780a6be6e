"""One sentence about a map: what its largest cluster holds, what joins it, and a warning if the evidence is weak.

It is the sentence above the explorer's map (``web/src/finding.ts`` and ``evidence.ts``), without the trend, because a
picture has one map.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from holderlake.core.contract.chains import BURN_ADDRESSES
from holderlake.core.contract.figures import share_text
from holderlake.core.units import counted
from holderlake.presentation.pictures.drawing.text import day, display_name
from holderlake.presentation.pictures.scene import Node, kind_of

_NOTABLE_BURN: Final = 0.01
_NAME_FACTOR: Final = 2
"""Factor of the weight of transfers with a named wallet, because a reader recognises it."""
_WEAK: Final = 0.01
"""A member that moved a smaller part of its amount is weakly joined."""

Row = Mapping[str, Any]


def finding_of(tables: Mapping[str, pa.Table], as_of: datetime) -> str:
    """Return the sentence about the map ``tables``, by name, as of an instant (UTC, without zone)."""
    rows = sorted(tables["map_nodes"].to_pylist(), key=lambda row: (row["rank"] or 1e9, row["kind"], row["address"]))
    nodes = {_key(row["address"], row["time_node"]): row for row in rows}
    for row in rows:
        if row["kind"] == "time" and row["address"] in nodes:  # the list of holders may name it
            row |= {name: nodes[row["address"]][name] for name in ("label", "is_cex", "is_dex", "is_contract")}
    holders = [row for row in rows if row["kind"] == "top_holder"]
    burnt = sum(row["share"] or 0.0 for row in holders if row["address"] in BURN_ADDRESSES)
    burn_note = f" {share_text(burnt)} is burnt." if burnt >= _NOTABLE_BURN else ""
    clusters = sorted(tables["clusters"].to_pylist(), key=lambda row: row["cluster_id"])
    drawn_holders = [row for row in holders if row["is_shown_on_map"] is not False]
    if clusters:
        members = set(tables["cluster_members"]["address"].to_pylist())
        lone = next((row for row in drawn_holders if row["address"] not in members), None)
        share = (lone and lone["share"]) or 0.0
        first = f"{_name(lone)} alone holds {share_text(share)}; " if lone and share > clusters[0]["share"] else ""
        return first + _of_cluster(clusters[0], tables, nodes, as_of) + burn_note
    if not drawn_holders:
        return burn_note.strip()
    unlinked, largest = counted(len(drawn_holders), "drawn holder"), drawn_holders[0]
    part = share_text(largest["share"] or 0.0)
    return f"Nothing links the {unlinked}; the largest, {_name(largest)}, has {part}.{burn_note}"


def _key(address: str, time_node: int | None) -> str:
    return address if time_node is None else f"{address}#{time_node}"


def _name(row: Row) -> str:
    return display_name(Node(row["address"], None, None, (row["label"] or "")[:60], None))


def _amount(row: Row, column: str) -> float:
    """Return an amount of a row in whole tokens; 0 if it is unknown."""
    return float(row[f"{column}_exact"] or row[column] or 0)


def _links(table: pa.Table, nodes: Mapping[str, Row], as_of: datetime) -> list[dict[str, Any]]:
    """Return the transfers between nodes that began up to ``as_of``, those with the most transfers first.

    ``from`` and ``to`` are keys of nodes, ``amount`` is in whole tokens, ``own`` says whether the token is the map's.
    """
    transfers = []
    for row in table.to_pylist():
        ends = []
        for side in ("from_address", "to_address"):
            key = _key(row[side], row["time_node"])
            ends.append(key if key in nodes else row[side])
        first, last = (_naive(row[column]) for column in ("first_date", "last_date"))
        if first is None or first <= as_of:
            is_own = (row["transfer_chain"], row["transfer_token"]) == (row["chain"], row["token_address"])
            known = {"own": is_own, "amount": _amount(row, "total_value")}
            dates = {"first": first, "last": last}
            transfers.append({**row, "from": ends[0], "to": ends[1], **known, **dates})
    transfers.sort(key=lambda row: (-(row["total_transfers"] or 0), row["from_address"], row["to_address"]))
    return transfers


def _naive(when: datetime | None) -> datetime | None:
    return when.astimezone(UTC).replace(tzinfo=None) if when and when.tzinfo else when


def _of_cluster(cluster: Row, tables: Mapping[str, pa.Table], nodes: Mapping[str, Row], as_of: datetime) -> str:
    members = {row["address"] for row in tables["cluster_members"].to_pylist() if row["cluster_id"] == 1}
    groups: dict[str, list[dict[str, Any]]] = {}
    links = _links(tables["grouped_transfers"], nodes, as_of)
    for key, node in nodes.items():
        if node["kind"] == "time":
            at_node = [row for row in links if key in (row["from"], row["to"]) and members & {row["from"], row["to"]}]
            if len({row["from"] if row["to"] == key else row["to"] for row in at_node}) > 1:
                groups[key] = at_node
    for row in links:
        if (
            row["time_node"] is None
            and {row["from"], row["to"]} <= members
            and {row["from"], row["to"]} <= nodes.keys()
        ):
            is_to_linking = nodes[row["to"]]["kind"] == "magic" and nodes[row["from"]]["kind"] != "magic"
            groups.setdefault(row["to"] if is_to_linking else row["from"], []).append(row)
    together = f"{counted(cluster['holder_count'], 'wallet')} together hold {share_text(cluster['share'])}"
    held = [nodes[key] for key in members & nodes.keys() if nodes[key]["kind"] == "top_holder"]
    most = max(held, key=lambda row: (row["share"] or 0.0, row["address"]), default=None)
    part = (most and most["share"]) or 0.0
    without = share_text(cluster["share"] - part)
    dominant = (
        f" ({without} without {_name(most)})"
        if most and cluster["holder_count"] > 2 and part > cluster["share"] / 2
        else ""
    )
    if not groups:
        return f"{together}{dominant}."

    def weight(item: tuple[str, list[dict[str, Any]]]) -> tuple[float, int, bool]:
        hub, rows = item
        others = {end for row in rows for end in (row["from"], row["to"])} - {hub}
        is_named = any(nodes[key]["label"] for key in {hub, *others} & nodes.keys() if nodes[key]["kind"] != "time")
        own_amount = sum(row["amount"] for row in rows if row["own"])
        return -own_amount * (_NAME_FACTOR if is_named else 1), -len(others), nodes[hub]["kind"] == "time"

    hub, rows = min(groups.items(), key=weight)
    strongest = min(rows, key=lambda row: (not row["own"], -row["amount"], -(row["total_transfers"] or 0)))
    did = [row for row in rows if _token(row) == _token(strongest)]
    doubtful, weak = _weakness(most, [row for group in groups.values() for row in group], nodes[hub])
    condition = f", if {_name(most)} is one of them (without it {without})" if most and doubtful else dominant
    return f"{together}{condition}, {_joining(cluster, nodes, hub, rows, did, as_of)}.{weak}"


def _token(row: Row) -> tuple[str, str]:
    return row["transfer_chain"], row["transfer_token"]


def _count_holders(nodes: Mapping[str, Row], keys: Iterable[str]) -> int:
    return sum(nodes.get(key, {}).get("kind") not in ("magic", "time") for key in set(keys))


def _joining(
    cluster: Row,
    nodes: Mapping[str, Row],
    hub: str,
    rows: list[dict[str, Any]],
    did: list[dict[str, Any]],
    at: datetime,
) -> str:
    """Return how the node ``hub`` joins holders: by its transfers ``rows``, those of one token being ``did``."""
    ends = [row["last"] for row in did if row["last"]]
    starts = [row["first"] for row in did if row["first"]]
    when = ""
    if ends and starts and max(ends) <= at:
        begin, end = day(min(starts)), day(max(ends))
        when = f" on {end}" if begin == end else f" from {_begin(begin, end)} to {end}"
    holders = cluster["holder_count"]

    def part_text(count: int) -> str:
        return f"{count} of them" if count < holders else ""

    node = nodes[hub]
    name = _name(node) if node["label"] else ""
    joined_count = _count_holders(nodes, {end for row in rows for end in (row["from"], row["to"])})
    if node["kind"] == "time":
        user = name or f"one {kind_of(node)}"
        return f"if transfers of {user} in the same minutes{when} link {part_text(joined_count) or 'them'}"
    receiver_count = _count_holders(nodes, (row["to"] for row in did if row["from"] == hub != row["to"]))
    sender_count = _count_holders(nodes, (row["from"] for row in did if row["to"] == hub != row["from"]))
    funder = (
        (name or "one wallet") if node["kind"] == "magic" else f"another member ({name})" if name else "another member"
    )
    if receiver_count > 1:
        return f"{part_text(receiver_count)} funded by {funder}{when}".strip()
    if sender_count > 1:
        return f"{part_text(sender_count)} paying into {funder}{when}".strip()
    return f"{part_text(joined_count)} linked by transfers{when}".strip()


def _begin(begin: str, end: str) -> str:
    """Return the first day of a range without the month and year that are also those of its last day."""
    words, others = begin.split(), end.split()
    while words[-1] == others.pop():
        words.pop()
    return " ".join(words)


def _weakness(most: Row | None, links: list[dict[str, Any]], hub: Row) -> tuple[bool, str]:
    """Return whether only weak links join the largest member ``most``, and a sentence about weak evidence."""
    joins = [row for row in links if most and most["address"] in (row["from"], row["to"])]
    if most and joins and all(row["own"] for row in joins):
        held = _amount(most, "amount")
        part = sum(row["amount"] for row in joins) / held if held else 1.0
        if part < _WEAK:
            little = share_text(part).replace("<", "less than ")
            return (
                True,
                f" Weak: the transfers that link {_name(most)} are {little} of its balance.",
            )
    if hub["kind"] == "time":
        kind = kind_of(hub)
        return False, f" Weak: strangers can use {'an' if kind == 'exchange' else 'a'} {kind} in the same minutes."
    return False, ""
