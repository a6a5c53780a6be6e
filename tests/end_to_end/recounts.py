"""The answers of ``docs/questions.md``, counted again in plain Python from the lake's files, without our SQL.

Transfers are counted from the Parquet files of the store, and costs from the ledger.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from itertools import combinations, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

from holderlake.core.contract.chains import ZERO_ADDRESS

Row = dict[str, Any]
Token = tuple[str, str]
"""Chain and address of a token."""
LARGE_HOLDER = "0x0f10303916f7a2c3a694b863a8029da005c629de"


def day(text: str) -> datetime:
    return datetime.fromisoformat(text)


@dataclass
class Files:
    """The files of a home, as rows. Times are naive UTC."""

    home: Path
    read: dict[str, list[Row]] = field(default_factory=dict)

    def rows(self, table: str) -> list[Row]:
        if table not in self.read:
            self.read[table] = []
            for path in sorted((self.home / "lake" / table).glob("chain=*/timestamp=*/*.parquet")):
                chain = path.parts[-3].removeprefix("chain=")
                self.read[table] += [{"chain": chain, **row} for row in pq.ParquetFile(path).read().to_pylist()]
        return self.read[table]

    def covered(self, family: str) -> dict[Token, list[datetime]]:
        """Return the instants at which each token has an answer, with or without rows, in order."""
        found: dict[Token, list[datetime]] = defaultdict(list)
        for path in (self.home / "lake" / "_manifests").glob(f"chain=*/timestamp=*/{family}.json"):
            manifest = json.loads(path.read_text())
            at = datetime.strptime(manifest["timestamp"], "%Y%m%dT%H%M%SZ")
            for subject in manifest["covered"]:
                found[manifest["chain"], subject].append(at)
        return {token: sorted(instants) for token, instants in found.items()}

    @cached_property
    def symbols(self) -> dict[Token, str]:
        ordered = sorted(self.rows("tokens"), key=lambda row: row["as_of"])
        return {(row["chain"], row["token_address"]): row["symbol"] for row in ordered}

    @cached_property
    def lists(self) -> dict[Token, dict[datetime, dict[str, Row]]]:
        """The holders by address, of each token and instant; empty at instants whose answer has none."""
        found: dict[Token, dict[datetime, dict[str, Row]]] = {
            token: {at: {} for at in instants} for token, instants in self.covered("holders").items()
        }
        for row in self.rows("holders"):
            found[row["chain"], row["token_address"]][row["as_of"]][row["address"]] = row
        return found

    def list_at(self, token: Token, t: datetime) -> dict[str, Row]:
        return self.lists[token][max(at for at in self.lists[token] if at <= t)]

    @cached_property
    def marked(self) -> dict[str, dict[tuple[str, str], str | None]]:
        """Addresses of exchanges (``exchange``) and of these and contracts (``special``), with their newest label."""
        found: dict[str, dict[tuple[str, str], str | None]] = {"exchange": {}, "special": {}}
        rows = [row for table in ("holders", "map_nodes", "addresses") for row in self.rows(table)]
        for row in sorted(rows, key=lambda row: (row["as_of"], row["label"] or "")):
            key = row["chain"], row["address"]
            is_exchange = row["is_cex"] or row["is_dex"]
            for kind in (["exchange"] if is_exchange else []) + (
                ["special"] if is_exchange or row["is_contract"] else []
            ):
                found[kind][key] = row["label"] or found[kind].get(key)
        return found

    @cached_property
    def clusters(self) -> dict[Token, dict[datetime, dict[int, dict[str, float]]]]:
        """The shares of members by cluster and address, of each token and instant."""
        shares = {
            (row["chain"], row["token_address"], row["as_of"], row["address"]): row["share"]
            for row in self.rows("map_nodes")
            if row["kind"] == "top_holder"
        }
        found: dict[Token, dict[datetime, dict[int, dict[str, float]]]] = {
            token: {at: defaultdict(dict) for at in instants} for token, instants in self.covered("maps").items()
        }
        for row in self.rows("cluster_members"):
            token, at = (row["chain"], row["token_address"]), row["as_of"]
            found[token][at][row["cluster_id"]][row["address"]] = shares.get((*token, at, row["address"])) or 0
        return found

    @cached_property
    def cluster_shares(self) -> dict[Token, dict[tuple[datetime, int], float]]:
        """The share of each cluster of a token, by instant and number."""
        found: dict[Token, dict[tuple[datetime, int], float]] = defaultdict(dict)
        for row in self.rows("clusters"):
            found[row["chain"], row["token_address"]][row["as_of"], row["cluster_id"]] = row["share"]
        return found

    @cached_property
    def transfers(self) -> list[Row]:
        """The stored transfers with their exact amounts, and the symbols of their tokens."""
        (folder,) = (self.home / "warehouse.duckdb.transfers").iterdir()
        tokens = {
            (row["chain"], row["token_address"]): row for row in pq.read_table(folder / "tokens.parquet").to_pylist()
        }
        rows = [
            row for path in folder.rglob("transfers/**/*.parquet") for row in pq.ParquetFile(path).read().to_pylist()
        ]
        for row in rows:
            token = tokens[row["chain"], row["token_address"]]
            row["symbol"] = token["symbol"]
            row["at"] = datetime.fromtimestamp(row["block_time"], UTC).replace(tzinfo=None)
            row["amount"] = Decimal(row["value"]).scaleb(-token["decimals"])
        return rows

    @cached_property
    def labels(self) -> list[Row]:
        (folder,) = (self.home / "warehouse.duckdb.transfers").iterdir()
        return pq.read_table(folder / "labels.parquet").to_pylist()


def _held(files: Files, symbol: str, before: str) -> dict[str, float]:
    """Return the share of each holder of a token before an instant."""
    moves = [row for row in files.transfers if row["symbol"] == symbol and row["at"] < day(before)]
    raw = Counter[str]()
    for row in moves:
        raw[row["from_address"]] -= int(row["value"])
        raw[row["to_address"]] += int(row["value"])
    supply = -raw.pop(ZERO_ADDRESS)
    return {address: balance / supply for address, balance in raw.items() if balance > 0}


def _stays_of(files: Files, symbol: str) -> list[tuple[datetime, datetime | None]]:
    """Return the beginning and end of each time in which an address held a token; None for one that still lasts."""
    moves: dict[datetime, list[Row]] = defaultdict(list)
    for row in files.transfers:
        if row["symbol"] == symbol and row["from_address"] != row["to_address"]:
            moves[row["at"]].append(row)
    raw, since, found = Counter[str](), dict[str, datetime](), list[tuple[datetime, datetime | None]]()
    for at in sorted(moves):
        for row in moves[at]:
            raw[row["from_address"]] -= int(row["value"])
            raw[row["to_address"]] += int(row["value"])
        for address in {row[side] for row in moves[at] for side in ("from_address", "to_address")} - {ZERO_ADDRESS}:
            if raw[address] > 0:
                since.setdefault(address, at)
            elif address in since:
                found.append((since.pop(address), at))
    return [*found, *((at, None) for at in since.values())]


def _largest_holders(files: Files) -> list[Row]:
    held = sorted(_held(files, "FERN", "2026-01-01").items(), key=lambda item: -item[1])[:3]
    return [
        {"rank": rank, "address": address, "share": share, "basis": "all holders"}
        for rank, (address, share) in enumerate(held, 1)
    ]


def _new_large_holders(files: Files) -> list[Row]:
    found = []
    for token, lists in files.lists.items():
        if min(lists) > day("2025-06-01"):
            continue
        before, after = (files.list_at(token, day(text)) for text in ("2025-06-01", "2026-06-01"))
        for address in after.keys() - before.keys():
            if (token[0], address) not in files.marked["special"]:
                holder = after[address]
                found.append((files.symbols[token], address, holder["rank"], holder["share"]))
    names = ("symbol", "address", "rank_after", "share_after")
    return [dict(zip(names, row, strict=True)) for row in sorted(found, key=lambda row: -row[3])[:5]]


def _top_ten(files: Files) -> list[Row]:
    days = ["2025-12-31", "2026-03-31", "2026-06-30", "2026-09-30", "2026-10-31"]
    found = []
    for symbol in ("FERN", "KELP"):
        for last in map(date.fromisoformat, days):
            shares = sorted(_held(files, symbol, f"{last + timedelta(1)}").values())
            found.append({"symbol": symbol, "day": last, "number": len(shares), "top_10_share": sum(shares[-10:])})
    return found


def _exits(files: Files) -> list[Row]:
    exits: Counter[str] = Counter()
    shares: dict[str, float] = defaultdict(float)
    for token, lists in files.lists.items():
        instants = list(lists)
        for at, later in pairwise(instants):
            if day("2025-11-01") < later <= day("2026-11-01"):
                for address in lists[at].keys() - lists[later].keys():
                    exits[files.symbols[token]] += 1
                    shares[files.symbols[token]] += lists[at][address]["share"]
    most = sorted(exits, key=lambda symbol: (-exits[symbol], symbol))[:3]
    return [{"symbol": symbol, "exits": exits[symbol], "share_before": shares[symbol]} for symbol in most]


def _stayed(files: Files) -> list[Row]:
    found = []
    for symbol in ("FERN", "TIDE"):
        before, after = (_held(files, symbol, text) for text in ("2025-11-02", "2026-11-01"))
        shares = [after[address] for address in before.keys() & after.keys()]
        found.append({"symbol": symbol, "holders": len(before), "stayed": len(shares), "share": sum(shares)})
    return found


def _stays(files: Files) -> list[Row]:
    found = []
    for symbol in ("FERN", "TIDE"):
        last = max(row["at"] for row in files.transfers if row["symbol"] == symbol)
        stays = _stays_of(files, symbol)
        days = [((end or last) - begun) / timedelta(1) for begun, end in stays]
        still_there = sum(end is None for _, end in stays)
        found.append({"symbol": symbol, "stays": len(stays), "median_days": median(days), "still_there": still_there})
    return found


def _falls(files: Files) -> list[Row]:
    scores: dict[Token, list[Row]] = defaultdict(list)
    for row in sorted(files.rows("maps"), key=lambda row: row["as_of"]):
        scores[row["chain"], row["token_address"]].append(row)
    found = [
        {
            "symbol": files.symbols[token],
            "timestamp": later["as_of"],
            "score_change": later["service_score"] - earlier["service_score"],
            **{name: later[name] for name in ("service_score", "top_10_adjusted", "nakamoto_coefficient")},
        }
        for token, maps in scores.items()
        for earlier, later in pairwise(maps)
        if earlier["service_score"] is not None and later["service_score"] is not None
    ]
    return sorted(found, key=lambda row: (round(row["score_change"], 9), row["timestamp"]))[:3]


def _relatives(files: Files, token: Token) -> dict[tuple[datetime, int], list[tuple[int, float]]]:
    """Return the related clusters of the map before, with the share in common, of each cluster."""
    found: dict[tuple[datetime, int], list[tuple[int, float]]] = defaultdict(list)
    for before, at in pairwise(files.clusters[token]):
        for name, members in files.clusters[token][at].items():
            for earlier, old in files.clusters[token][before].items():
                both = members.keys() & old.keys()
                kept = sum(old[one] for one in both) / (sum(old.values()) or 1)
                origin = sum(members[one] for one in both) / (sum(members.values()) or 1)
                if both and max(kept, origin) >= 0.5 - 1e-9:
                    found[at, name].append((earlier, sum(old[one] for one in both)))
    return found


def _mergers(files: Files) -> list[Row]:
    found = [
        {
            "symbol": files.symbols[token],
            "timestamp": at,
            "members": len(files.clusters[token][at][name]),
            "share": round(files.cluster_shares[token][at, name], 4),
            "merged_from": sorted(earlier for earlier, _ in related),
        }
        for token in files.clusters
        for (at, name), related in _relatives(files, token).items()
        if len(related) > 1
    ]
    return sorted(found, key=lambda row: (row["timestamp"], row["symbol"]))


def _cinder(files: Files) -> list[Row]:
    (token,) = [token for token, symbol in files.symbols.items() if symbol == "CNDR"]
    related, shares = _relatives(files, token), files.cluster_shares[token]
    line = [(day("2025-01-31 06:00:00"), 1)]
    for at in files.clusters[token]:
        heirs = [
            (common, name)
            for (when, name), old in related.items()
            for one, common in old
            if when == at and one == line[-1][1]
        ]
        if at > line[-1][0] and heirs:
            line.append((at, max(heirs)[1]))
    rows = []
    for place, step in enumerate(line):
        change = shares[step] - shares[line[place - 1]] if place else None
        event = (
            "born"
            if not related[step]
            else "merged"
            if len(related[step]) > 1
            else "grew"
            if change and change > 0
            else "shrank"
        )
        members = len(files.clusters[token][step[0]][step[1]])
        rows.append(
            {"timestamp": step[0], "event": event, "members": members, "share": shares[step], "share_change": change}
        )
    return rows


def _at_exchanges(files: Files) -> list[Row]:
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for token, lists in files.lists.items():
        for address, holder in lists[max(lists)].items():
            if (token[0], address) in files.marked["exchange"]:
                found[files.symbols[token], token[0]].append(holder["share"])
    rows = [
        {"symbol": symbol, "chain": chain, "addresses": len(shares), "share": sum(shares)}
        for (symbol, chain), shares in found.items()
    ]
    return sorted(rows, key=lambda row: (-row["share"], row["symbol"]))[:5]


def _taken_out(files: Files) -> list[Row]:
    services = {
        (row["chain"], row["token_address"], row["as_of"], row["address"])
        for row in files.rows("map_nodes")
        if row["kind"] == "time"
    }
    sums: dict[tuple[str, str, int], Decimal] = defaultdict(Decimal)
    for row in files.rows("grouped_transfers"):
        token, at = (row["chain"], row["token_address"]), row["as_of"]
        if at != max(files.clusters[token]) or row["transfer_token"] != token[1]:
            continue
        cluster_of = {address: name for name, members in files.clusters[token][at].items() for address in members}
        for own, other, sign in (("from_address", "to_address", -1), ("to_address", "from_address", 1)):
            exchange = row[other]
            is_exchange = (token[0], exchange) in files.marked["exchange"] or (*token, at, exchange) in services
            if row[own] in cluster_of and exchange not in cluster_of and is_exchange:
                name = files.marked["exchange"].get((token[0], exchange)) or exchange
                amount = row["total_value"] if row["total_value"] is not None else Decimal(row["total_value_exact"])
                sums[files.symbols[token], name, cluster_of[row[own]]] += sign * amount
    most = sorted(sums.items(), key=lambda item: -item[1])[:3]
    return [
        {"symbol": symbol, "exchange": exchange, "cluster_id": cluster, "taken_out": amount}
        for (symbol, exchange, cluster), amount in most
    ]


def _into_exchanges(files: Files) -> list[Row]:
    (token,) = [token for token, symbol in files.symbols.items() if symbol == "FERN"]
    clusters = files.clusters[token][max(files.clusters[token])]
    exchanges = {address for chain, address in files.marked["exchange"] if chain == token[0]}
    labels = [row for row in files.labels if row["chain"] in {None, token[0]}]
    exchanges |= {row["address"] for row in labels if row["kind"] in {"cex", "dex"}}
    exchanges -= {row["address"] for row in labels if row["kind"] == "burn"}
    exchanges -= {address for members in clusters.values() for address in members}
    sums: dict[datetime, Decimal] = defaultdict(Decimal)
    for row in files.transfers:
        if row["symbol"] == "FERN" and row["at"] >= day("2026-05-01"):
            month = datetime(row["at"].year, row["at"].month, 1)
            sums[month] += row["amount"] * ((row["to_address"] in exchanges) - (row["from_address"] in exchanges))
    return [{"period": month, "into_exchanges": amount} for month, amount in sorted(sums.items())]


def _busy(files: Files) -> list[Row]:
    senders: dict[datetime, list[str]] = defaultdict(list)
    for row in files.transfers:
        if row["symbol"] == "FERN" and row["at"] >= day("2026-05-01"):
            senders[datetime(row["at"].year, row["at"].month, 1)].append(row["from_address"])
    return [
        {"month": month, "transfers": len(each), "senders": len(set(each))} for month, each in sorted(senders.items())
    ]


def _largest_transfers(files: Files) -> list[Row]:
    found = [row for row in files.transfers if row["symbol"] == "DRFT" and row["at"] >= day("2026-01-01")]
    return [
        {"block_time": row["at"], **{name: row[name] for name in ("from_address", "to_address", "amount")}}
        for row in sorted(found, key=lambda row: (-row["amount"], row["at"]))[:3]
    ]


def _counterparties(files: Files) -> list[Row]:
    amounts: dict[tuple[str, str, str], list[Decimal]] = defaultdict(list)
    for row in files.transfers:
        for own, other, direction in (
            ("from_address", "to_address", "sent"),
            ("to_address", "from_address", "received"),
        ):
            if row[own] == LARGE_HOLDER:
                amounts[row["symbol"], direction, row[other]].append(row["amount"])
    rows = [
        {"symbol": symbol, "direction": direction, "counterparty": other, "transfers": len(each), "amount": sum(each)}
        for (symbol, direction, other), each in amounts.items()
    ]
    return sorted(rows, key=lambda row: -row["amount"])[:5]


def _address(files: Files) -> list[Row]:
    found = []
    for token, lists in sorted(files.lists.items(), key=lambda item: files.symbols.get(item[0], "")):
        held = [(at, holders[LARGE_HOLDER]) for at, holders in lists.items() if LARGE_HOLDER in holders]
        for place, (at, holder) in enumerate(held):
            clusters = [name for name, members in files.clusters[token][at].items() if LARGE_HOLDER in members]
            found.append(
                {
                    "symbol": files.symbols[token],
                    "timestamp": at,
                    "rank": holder["rank"],
                    "share": holder["share"],
                    "amount_change": holder["amount"] - held[place - 1][1]["amount"] if place else None,
                    "cluster_id": clusters[0] if clusters else None,
                    "cluster_share": files.cluster_shares[token][at, clusters[0]] if clusters else None,
                }
            )
    return found


def _several_tokens(files: Files) -> list[Row]:
    held: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for token, lists in files.lists.items():
        for address, holder in lists[max(lists)].items():
            if holder["share"] >= 0.005 and (token[0], address) not in files.marked["special"]:
                held[address].append((files.symbols[token], holder["share"]))
    rows = [
        {
            "address": address,
            "tokens": ", ".join(sorted(name for name, _ in each)),
            "shares": sum(share for _, share in each),
        }
        for address, each in held.items()
        if len(each) > 1
    ]
    return sorted(rows, key=lambda row: -row["shares"])[:3]


def _overlap(files: Files) -> list[Row]:
    rows = []
    for a, b in combinations(sorted(token for token, lists in files.lists.items() if lists[max(lists)]), 2):
        holders_of_a, holders_of_b = (files.lists[token][max(files.lists[token])].keys() for token in (a, b))
        both = holders_of_a & holders_of_b
        wallets = [one for one in both if not {(a[0], one), (b[0], one)} & files.marked["special"].keys()]
        rows.append({"a": files.symbols[a], "b": files.symbols[b], "wallets_at_least": len(wallets)})
    return sorted(rows, key=lambda row: (-row["wallets_at_least"], row["a"], row["b"]))[:3]


def _cost(files: Files) -> list[Row]:
    with closing(sqlite3.connect(files.home / "ledger.sqlite")) as ledger:
        entries = ledger.execute("SELECT endpoint, cost FROM entries WHERE state = 'settled'").fetchall()
    costs: dict[str, list[int]] = defaultdict(list)
    for endpoint, cost in entries:
        costs[endpoint].append(cost)
    rows = [
        {"endpoint": endpoint, "calls": len(each), "credits": Decimal(sum(each)).scaleb(-2)}
        for endpoint, each in costs.items()
    ]
    return sorted(rows, key=lambda row: -row["credits"])


def _quality(files: Files) -> list[Row]:
    family_of = {"map": "maps", "holders": "holders"}
    cases = set()
    for row in files.rows("failures"):
        token = row["chain"], row["subject"]
        has_been_held = any(holders for at, holders in files.lists[token].items() if at < row["as_of"])
        cases.add((row["code"], family_of[row["endpoint"]], token, has_been_held))
    counts = Counter((code, family) for code, family, _, _ in cases)
    return [
        {"severity": "info", "issue": code, "family": family, "cases": number}
        for (code, family), number in sorted(counts.items())
    ]


RECOUNTS: dict[str, Callable[[Files], list[Row]]] = {
    "largest-holders": _largest_holders,
    "new-large-holders": _new_large_holders,
    "top-ten": _top_ten,
    "exits": _exits,
    "stayed": _stayed,
    "stays": _stays,
    "falls": _falls,
    "mergers": _mergers,
    "cinder": _cinder,
    "at-exchanges": _at_exchanges,
    "taken-out": _taken_out,
    "into-exchanges": _into_exchanges,
    "busy": _busy,
    "largest-transfers": _largest_transfers,
    "counterparties": _counterparties,
    "address": _address,
    "several-tokens": _several_tokens,
    "overlap": _overlap,
    "cost": _cost,
    "quality": _quality,
}
"""The recount of each question, by the name of its plot."""
