"""Maps by brute force: the contract, "Classification and computation", with dicts, sets and integers.

It uses neither Arrow nor SQL and shares no code with the engine except the plain records of the input. It is slow and
follows the text of the contract. Where the contract leaves a choice, it follows the engine's docstrings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import networkx as nx

from holderlake.core.contract.chains import BURN_ADDRESSES, ZERO_ADDRESS
from holderlake.core.contract.rules import Rules
from holderlake.core.contract.times import from_unix
from holderlake.engine.records import Label, TokenInfo

Row = dict[str, Any]
Key = tuple[str, str]


@dataclass
class Facts:
    """Details of an address from transfers and labels."""

    received_from: set[str] = field(default_factory=set)
    sent_to: set[str] = field(default_factory=set)
    transfers: int = 0
    first: int | None = None
    name: str | None = None
    entity: str | None = None
    cex: bool = False
    dex: bool = False
    contract: bool = False
    paid: bool = False

    @property
    def degree(self) -> int:
        return len(self.received_from | self.sent_to)


@dataclass(frozen=True)
class Oracle:
    """A world as plain records, and the answers that the engine gives."""

    transfers: Sequence[Row]
    tokens: Sequence[TokenInfo]
    labels: Sequence[Label] = ()
    rules: Rules = field(default_factory=Rules)

    # ------------------------------------------------------------------ balances

    def balances(self, token: Key, at: int) -> tuple[int, dict[str, int]]:
        """Return the supply, and all balances except zero."""
        held: dict[str, int] = {}
        for row in self.transfers:
            if (row["chain"], row["token_address"]) == token and row["block_time"] <= at:
                value = int(row["value"])
                held[row["from_address"]] = held.get(row["from_address"], 0) - value
                held[row["to_address"]] = held.get(row["to_address"], 0) + value
        supply = -held.pop(ZERO_ADDRESS, 0)
        return supply, {address: balance for address, balance in held.items() if balance}

    def holders(self, token: Key, at: int) -> list[tuple[str, int]]:
        """Return the balances above zero, the largest first, equal ones by address."""
        _, held = self.balances(token, at)
        return sorted(
            ((address, balance) for address, balance in held.items() if balance > 0), key=lambda x: (-x[1], x[0])
        )

    # ------------------------------------------------------------------ addresses

    def moved(self, at: int) -> list[Row]:
        """Return the transfers above zero until the end of the second."""
        return [row for row in self.transfers if row["block_time"] <= at and int(row["value"]) > 0]

    def facts(self, at: int, chain: str) -> dict[str, Facts]:
        """Return the details of all addresses of transfers and labels."""
        facts: dict[str, Facts] = {}

        def of(address: str) -> Facts:
            return facts.setdefault(address, Facts())

        for row in self.moved(at):
            sender, receiver, second = row["from_address"], row["to_address"], row["block_time"]
            for address in {sender, receiver}:
                known = of(address)
                known.transfers += 1
                known.first = second if known.first is None else min(known.first, second)
            if sender != receiver:
                of(receiver).received_from.add(sender)
                of(sender).sent_to.add(receiver)
        by_weight = sorted(
            (label for label in self.labels if label.chain in {chain, None}),
            key=lambda label: (-label.precedence, label.chain != chain, label.source),
        )
        for label in by_weight:
            known = of(label.address)
            if known.name is None and label.name is not None:
                known.name, known.paid = label.name, label.is_paid_label
            known.entity = known.entity or label.entity_id
            known.cex |= label.is_cex
            known.dex |= label.is_dex
            known.contract |= label.is_contract
        for address in BURN_ADDRESSES | {token.address for token in self.tokens if token.chain == chain}:
            of(address).contract = True
        return facts

    def is_supernode(self, known: Facts) -> bool:
        return known.degree >= self.rules.supernode_degree

    def is_shown(self, known: Facts) -> bool:
        is_hypernode = known.transfers > self.rules.hypernode_transfers
        return not (known.cex or known.dex or known.contract or is_hypernode)

    def details(self, known: Facts) -> Row:
        return {
            "degree": known.degree,
            "inward_relations": len(known.received_from),
            "outward_relations": len(known.sent_to),
            "is_supernode": self.is_supernode(known),
            "is_contract": known.contract,
            "is_cex": known.cex,
            "is_dex": known.dex,
            "label": known.name,
            "entity_id": known.entity,
            "first_activity_date": None if known.first is None else from_unix(known.first),
            "is_paid_label": known.paid,
        }

    # ------------------------------------------------------------------ the map

    def map(self, token: Key, at: int, limit: int, use_magic_nodes: bool, use_time_nodes: bool) -> dict[str, list[Row]]:
        """Return the five tables without their common columns; amounts are fractions of a token unit."""
        rules, facts = self.rules, self.facts(at, token[0])
        supply, _ = self.balances(token, at)
        holders = self.holders(token, at)
        top = dict(holders[:limit])
        shown = {address for address in top if self.is_shown(facts[address])}
        busy = {address for address, known in facts.items() if self.is_supernode(known)}
        counted = {(known.chain, known.address) for known in self.tokens if known.is_indexed} | {token}
        decimals = {(known.chain, known.address): known.decimals for known in self.tokens}
        edges = [
            row
            for row in self.moved(at)
            if (row["chain"], row["token_address"]) in counted and row["from_address"] != row["to_address"]
        ]

        def share(amount: int) -> float:
            return float(min(Fraction(1), Fraction(amount, supply))) if supply > 0 else 0.0

        def grouped(rows: Iterable[Row], number: int | None) -> list[Row]:
            groups: dict[tuple[str, str, str, str], list[Row]] = {}
            for row in rows:
                key = (row["from_address"], row["to_address"], row["chain"], row["token_address"])
                groups.setdefault(key, []).append(row)
            return [
                {
                    "from_address": key[0],
                    "to_address": key[1],
                    "rel_type": "GROUPED_TRANSFER",
                    "transfer_chain": key[2],
                    "transfer_token": key[3],
                    "total_value": Fraction(sum(int(row["value"]) for row in rows), 10 ** decimals[key[2:]]),
                    "total_transfers": len(rows),
                    "first_date": from_unix(min(row["block_time"] for row in rows)),
                    "last_date": from_unix(max(row["block_time"] for row in rows)),
                    "unknown_data": None,
                    "time_node": number,
                }
                for key, rows in sorted(groups.items())
            ]

        # magic nodes: wallets that connect shown holders
        met: dict[str, list[str]] = {}
        for row in edges:
            for holder, other in (
                (row["from_address"], row["to_address"]),
                (row["to_address"], row["from_address"]),
            ):
                if holder in shown and other not in shown:
                    met.setdefault(other, []).append(holder)
        candidates = [
            (-len(set(dealings)), -len(dealings), other)
            for other, dealings in met.items()
            if len(set(dealings)) >= rules.magic_links
            and other not in top
            and other not in busy
            and self.is_shown(facts[other])
        ]
        magic = [other for _, _, other in sorted(candidates)[: rules.magic_limit]] if use_magic_nodes else []

        # relationships: among shown holders and magic nodes, except those between two supernodes
        on_map = shown | set(magic)
        kept = [row for row in edges if not (row["from_address"] in busy and row["to_address"] in busy)]
        between = [row for row in kept if row["from_address"] in on_map and row["to_address"] in on_map]

        # time nodes: an exchange, window by window
        def uses(rows: Iterable[Row]) -> Iterator[tuple[tuple[str, int], str, Row]]:
            for row in rows if use_time_nodes else []:
                ends = (row["from_address"], row["to_address"])
                for wallet, exchange in {ends, ends[::-1]} if ends[0] != ends[1] else ():
                    known = facts[exchange]
                    if known.cex or known.dex or exchange in rules.time_allowed:
                        yield (exchange, row["block_time"] // rules.time_window), wallet, row

        windows: dict[tuple[str, int], list[tuple[str, Row]]] = {}
        for window, wallet, row in uses(kept):
            if wallet in on_map:
                windows.setdefault(window, []).append((wallet, row))
        crowds: dict[tuple[str, int], set[str]] = {}
        for window, wallet, _ in uses(self.moved(at)):
            crowds.setdefault(window, set()).add(wallet)
        shared = [
            (-len({wallet for wallet, _ in uses if wallet in shown}), *window, uses)
            for window, uses in windows.items()
            if len({wallet for wallet, _ in uses if wallet in shown}) >= rules.time_links
            and len(crowds[window]) <= rules.time_wallets
        ]
        time_nodes = sorted(shared, key=lambda node: node[:3])[: rules.time_limit]

        # clusters: wallets that relationships connect, or that used the same exchange in the same window
        graph = nx.Graph((row["from_address"], row["to_address"]) for row in between)
        graph.add_edges_from(
            (wallet, ("window", number)) for number, node in enumerate(time_nodes) for wallet, _ in node[3]
        )
        found = []
        for component in nx.connected_components(graph):
            members = [address for address in top if address in component]
            if len(members) > 1:
                helpers = [address for address in magic if address in component]
                found.append((sum(top[address] for address in members), members, helpers))
        found.sort(key=lambda cluster: (-cluster[0], cluster[1][0]))

        # metrics: over all free holders, a cluster counts as one
        clustered = {address for _, members, _ in found for address in members}
        free = [(address, balance) for address, balance in holders if self.is_shown(facts[address])]
        groups = sorted(
            [amount for amount, _, _ in found] + [balance for address, balance in free if address not in clustered],
            reverse=True,
        )

        def held_by(kind: str) -> float:
            return share(sum(balance for address, balance in holders if getattr(facts[address], kind)))

        fresh = sum(balance for address, balance in free if at - facts[address].first < rules.fresh_wallet_seconds)
        return {
            "maps": [
                {
                    "cexs": held_by("cex"),
                    "dexs": held_by("dex"),
                    "contracts": held_by("contract"),
                    "fresh_wallets": share(fresh),
                    "top_10_adjusted": share(sum(groups[:10])),
                    "bundles": share(sum(amount for amount, _, _ in found[:10])),
                    "service_score": service_score(groups),
                    "gini_index": float(gini(groups)),
                    "herfindahl_hirschman_index": float(hhi(groups)),
                    "nakamoto_coefficient": nakamoto(groups),
                }
            ],
            "map_nodes": [
                {
                    "kind": "top_holder",
                    "address": address,
                    "rank": rank,
                    "amount": Fraction(balance, 10 ** decimals[token]),
                    "share": share(balance),
                    "is_shown_on_map": address in shown,
                    "time_node": None,
                    **self.details(facts[address]),
                }
                for rank, (address, balance) in enumerate(top.items(), start=1)
            ]
            + [_bare("magic", address, True, None) | self.details(facts[address]) for address in magic]
            + [
                _bare("time", exchange, None, number) | dict.fromkeys(self.details(Facts()))
                for number, (_, exchange, _, _) in enumerate(time_nodes, start=1)
            ],
            "grouped_transfers": grouped(between, None)
            + [
                row
                for number, node in enumerate(time_nodes, start=1)
                for row in grouped([row for _, row in node[3]], number)
            ],
            "clusters": [
                {
                    "cluster_id": number,
                    "share": share(amount),
                    "amount": Fraction(amount, 10 ** decimals[token]),
                    "holder_count": len(members),
                    "magic_node_count": len(helpers),
                }
                for number, (amount, members, helpers) in enumerate(found, start=1)
            ],
            "cluster_members": [
                {"cluster_id": number, "address": address, "kind": kind}
                for number, (_, members, helpers) in enumerate(found, start=1)
                for kind, addresses in (("holder", members), ("magic", helpers))
                for address in addresses
            ],
        }


def _bare(kind: str, address: str, is_shown: bool | None, number: int | None) -> Row:
    return {
        "kind": kind,
        "address": address,
        "rank": None,
        "amount": None,
        "share": None,
        "is_shown_on_map": is_shown,
        "time_node": number,
    }


# ---------------------------------------------------------------------- definitions of concentration


def hhi(sizes: Sequence[int]) -> Fraction:
    """Return the sum of squared parts."""
    total = sum(sizes)
    return sum((Fraction(size, total) ** 2 for size in sizes), Fraction(0)) if total else Fraction(0)


def gini(sizes: Sequence[int]) -> Fraction:
    """Return half the mean absolute difference of all pairs, divided by the mean."""
    total, number = sum(sizes), len(sizes)
    if not total:
        return Fraction(0)
    # by the Lorenz curve: the area between it and the diagonal, over the area below the diagonal
    under, reached = Fraction(0), 0
    for size in sorted(sizes):
        under += Fraction(2 * reached + size, 2 * total * number)
        reached += size
    return 1 - 2 * under


def nakamoto(sizes: Sequence[int]) -> int:
    """Return the least number of groups that hold half of what all groups hold."""
    largest_first = sorted(sizes, reverse=True)
    enough = (number for number in range(1, len(sizes) + 1) if sum(largest_first[:number]) * 2 >= sum(sizes))
    return next(enough, 0)


def service_score(sizes: Sequence[int]) -> float | None:
    """Return the logarithm of the number of equal groups with the same HHI, scaled: 1 is 0, 1,000 or more are 100."""
    if len(sizes) < 2:
        return None
    return round(100 * min(1.0, math.log10(1 / hhi(sizes)) / 3), 2)
