"""A warehouse for the explorer: a token with a history, one of 500 holders, a hostile one, one without a map."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from holderlake.analysis.entities.links import MARKED, find_entities
from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.tables import amount_columns
from holderlake.core.contract.times import to_unix
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.engine.store.store import Store
from holderlake.sources.store import stored_transfers
from tests.analysis.entities.transfers import paid
from tests.analysis.entities.transfers import write as write_transfers
from tests.engine.world import a_token, table
from tests.engine.world import transfer as raw_transfer
from tests.helpers.lakes import failures, rows, transfer, write

INSTANTS: Final = [datetime(2026, month, 1) for month in range(1, 7)]
EARLIEST, LATEST = INSTANTS[0], INSTANTS[-1]

TIDE: Final = "0x" + "71de" * 10
CROWD: Final = "0x" + "c0" * 20
HOSTILE: Final = "0x" + "bad0" * 10
MAPLESS: Final = "0x" + "e0" * 20
HAIRBALL: Final = "0x" + "ba11" * 10
LONE: Final = "0x" + "10e0" * 10
BURNT: Final = "0x" + "dead" * 10
OWNED: Final = "0x" + "0e0e" * 10
ALL_BURNT: Final = "0x" + "a5a5" * 10

RIGHT_TO_LEFT: Final = "\u202e\u05e9\u05dc\u05d5\u05dd gnp.exe"
EMOJI: Final = "🐳👩‍👩‍👧‍👦" + "z\u0335\u0327\u0322" * 40
LONG: Final = "Ŵ" * 10_000
SCRIPT: Final = "<script>window.harmed = true</script><img src=x onerror='window.harmed=true'>"
HOSTILE_LABELS: Final = [SCRIPT, RIGHT_TO_LEFT, EMOJI, LONG, "javascript:alert(1)", "\x00\x1b[31m\u2028'\"&amp;", " "]

TEAM, WHALE, NEWCOMER, LEAVER = ("0x" + digit * 40 for digit in "1234")
MAGIC: Final = "0x" + "5" * 40
EXCHANGE: Final = "0x" + "6" * 40
POOL: Final = "0x" + "7" * 40
STRANGER: Final = "0x" + "9" * 40
"""It holds nothing, but has sent tokens to the whale."""
EXACT: Final = Decimal("123456789.000000000000000001")


def address(number: int) -> str:
    return f"0x{number:040x}"


WALLETS: Final = [address(60_000 + number) for number in range(4)]
"""Wallets of one owner. The map of ``OWNED`` has the first three."""
AMOUNTS: Final = {
    address(61_000 + place): amount for place, amount in enumerate((100, 95, 90, 85, 80, 78, 76, 74, 72, 70))
}
AMOUNTS.update(zip(WALLETS, (60, 50, 40, 30), strict=True))
"""What each holder of ``OWNED`` has, of 1,000."""


def fill(home: Path, with_edges: bool = False) -> Warehouse:
    """A lake and the warehouse loaded from it, as runs leave them in a home.

    ``with_edges`` adds tokens whose maps are unusual: one large cluster, one holder, no holder.
    """
    lake = Lake(home / "lake")
    warehouse = Warehouse(home / "warehouse.duckdb", lambda: stored_transfers(home / "engine"))
    with Store(home / "engine") as store:
        store.add_tokens([a_token(("eth", TIDE), symbol="TIDE")])
        sent = [
            raw_transfer(f"{TEAM} -> {MAGIC}", 300, to_unix(LATEST) - day * 86_400, token=("eth", TIDE))
            for day in range(3)
        ]
        sent.append(raw_transfer(f"{STRANGER} -> {WHALE}", 7, to_unix(EARLIEST), token=("eth", TIDE)))
        store.add_transfers(table([row | {"tx_hash": f"0x{n:064x}"} for n, row in enumerate(sent)]), "test")
    for number, instant in enumerate(INSTANTS):
        maps: dict[str, list[dict[str, Any]]] = {}
        made_maps = {TIDE: _tide(number), CROWD: crowd_map(number), HOSTILE: _hostile()}
        if with_edges:
            made_maps |= {
                HAIRBALL: _hairball(number),
                LONE: _map({address(90_001): (0.9998, {})}, [], [], 0.0),
                BURNT: _burnt(number),
                ALL_BURNT: _map(
                    {f"0x{'dead':0>40}": (1.0, {"is_contract": True, "is_shown_on_map": False})}, [], [], 0.0
                ),
            }
        for token, made in made_maps.items():
            for name, listed in made.items():
                maps.setdefault(name, []).extend(row | _more(token, name, instant) for row in listed)
        tables = {name: rows(name, "eth", instant, listed) for name, listed in maps.items()}
        failed = failures("eth", instant, ("maps", MAPLESS))
        write(lake, "maps", "eth", instant, tables, set(made_maps), failed)
        nodes = [row for row in maps["map_nodes"] if row["token_address"] == TIDE and row["kind"] == "top_holder"]
        listed = [{name: row[name] for name in row.keys() - {"kind", "is_shown_on_map"}} for row in nodes]
        listed.append(
            {"token_address": TIDE, "address": MAGIC, "rank": 36, "share": 0.004} | amount_columns("amount", Decimal(4))
        )
        write(lake, "holders", "eth", instant, {"holders": rows("holders", "eth", instant, listed)}, {TIDE})
    named = {TIDE: ("Tide Pool", "TIDE"), CROWD: ("Crowd", "CRWD"), HOSTILE: (SCRIPT + LONG, RIGHT_TO_LEFT)}
    named[MAPLESS] = ("Mapless", "NONE")
    if with_edges:
        named |= {
            HAIRBALL: ("Hairball", "HAIR"),
            LONE: (LONE, LONE[:8]),
            BURNT: ("Burnt out", "ASH"),
            ALL_BURNT: ("All burnt", "COAL"),
        }
    write(lake, "tokens", "eth", LATEST, {"tokens": _tokens(named)}, set(named))
    warehouse.load(lake)
    return warehouse


def add_owners(home: Path, warehouse: Warehouse) -> None:
    """Add the token ``OWNED`` to a home: its map, its transfers, and the search for owners."""
    shown = {holder: (amount / 1_000, {}) for holder, amount in AMOUNTS.items() if holder != WALLETS[-1]}
    other = next(iter(AMOUNTS))
    links = [transfer(WALLETS[0], WALLETS[1], OWNED, "eth", "5"), transfer(WALLETS[1], other, OWNED, "eth", "7", 2)]
    lake = Lake(home / "lake")
    for instant in INSTANTS:
        made = _map(shown, [([*WALLETS[:2], other], [])], links, 50.0)
        tables = {
            name: rows(name, "eth", instant, [row | _more(OWNED, name, instant) for row in listed])
            for name, listed in made.items()
        }
        write(lake, "maps", "eth", instant, tables, {OWNED})
    with Store(home / "engine") as store:
        store.add_tokens([a_token(("eth", OWNED), symbol="SHOAL")])
        minted = [
            raw_transfer(f"{ZERO_ADDRESS} -> {one}", amount, token=("eth", OWNED)) for one, amount in AMOUNTS.items()
        ]
        store.add_transfers(table(minted), "test")
    payer, app = address(62_000), address(62_001)
    rows_of_owner = [paid(payer, one, 10, tx="0xt") for one in WALLETS]
    rows_of_owner += [paid(one, app, 9_000 + minute, 1) for minute in (0, 100, 200, 300) for one in WALLETS]
    find_entities([write_transfers(home, rows_of_owner)], MARKED.empty_table(), home / "engine" / "entities")
    warehouse.load(lake)


def _more(token: str, name: str, instant: datetime) -> dict[str, Any]:
    """The columns that rows of a map's table share: its token, and the time of links up to the map's instant."""
    dates = {"first_date": EARLIEST, "last_date": instant} if name == "grouped_transfers" else {}
    return {"token_address": token} | dates


def _tokens(named: Mapping[str, tuple[str, str]]) -> pa.Table:
    listed = [
        {"token_address": token, "name": name, "symbol": symbol, "is_indexed": True}
        | ({"max_date": EARLIEST + timedelta(hours=12)} if token == HOSTILE else {})
        for token, (name, symbol) in named.items()
    ]
    return rows("tokens", "eth", LATEST, listed)


def _tide(number: int) -> dict[str, list[dict[str, Any]]]:
    """The team and two friends are a cluster, the largest but in March; the whale grows; at the end one leaves."""
    is_last = number == len(INSTANTS) - 1
    held: dict[str, tuple[float, dict[str, Any]]] = {
        EXCHANGE: (0.2, {"is_cex": True, "is_shown_on_map": False, "label": "Bourse"}),
        POOL: (0.1, {"is_contract": True, "is_dex": True, "is_shown_on_map": False}),
        TEAM: (0.09, {"label": "Tide: Team"}),
        WHALE: (0.02 + 0.01 * number, {}),
        NEWCOMER if is_last else LEAVER: (0.015, {}),
    } | {address(each): (0.01 - each / 10_000, {}) for each in range(1, 31)}
    is_march = number == 2
    if is_march:
        held |= {address(each): (0.07, {}) for each in (3, 4)}
    friends = [TEAM, address(1), address(2)]
    links = [transfer(TEAM, MAGIC, TIDE, "eth", "900", 3), transfer(MAGIC, address(1), TIDE, "eth", "450")]
    links += [transfer(MAGIC, address(2), TIDE, "eth", "449.5"), transfer(address(3), address(4), "native", "eth")]
    window = {"time_node": 1}
    links += [transfer(EXCHANGE, address(each), "native", "eth") | window for each in (5, 6)]
    clusters = [(friends, [MAGIC]), ([address(3), address(4)], [])]
    made = _map(held, clusters[::-1] if is_march else clusters, links, 40.0 + number)
    made["map_nodes"] += [{"kind": "time", "address": EXCHANGE} | window]
    return made


def crowd_map(number: int, holders: int = 500, links: int = 5_000) -> dict[str, list[dict[str, Any]]]:
    """500 holders with 5,000 links between them, some of them others at each instant."""
    chance = random.Random(number)
    listed = [address(1_000 + each + (number * 500 if each % 20 == 0 else 0)) for each in range(holders)]
    held = {one: (0.08 / (rank + 4) ** 0.8, {}) for rank, one in enumerate(listed)}
    pairs: set[tuple[str, str]] = set()
    while len(pairs) < links:
        sender, receiver = (listed[int(holders * chance.random() ** 1.3)] for _ in range(2))
        if sender != receiver:
            pairs.add((sender, receiver))
    transfers = [transfer(one, other, CROWD, "eth", str(chance.randint(1, 10**6))) for one, other in sorted(pairs)]
    groups = [(listed[begin : begin + 40], []) for begin in range(0, 360, 40)]
    return _map(held, groups, transfers, 20.0)


def _hairball(number: int) -> dict[str, list[dict[str, Any]]]:
    """300 holders, of which 91% are one cluster, with 20 magic nodes and 2,000 links. A time node links two others."""
    chance = random.Random(100 + number)
    listed = [address(20_000 + each) for each in range(300)]
    magic = [address(21_000 + each) for each in range(20)]
    members = listed[:273]
    held = {one: (0.12 / (rank + 3) ** 0.9, {}) for rank, one in enumerate(listed)}
    amounts: dict[tuple[str, str], int] = {}
    for each, one in enumerate(members[1:], 1):
        amounts[members[int(each * chance.random() ** 2)], one] = int(10 ** (1 + 7 * chance.random()))
    for one in magic:
        amounts |= {(one, other): 10 ** chance.randint(1, 8) for other in chance.sample(members, 12)}
    while len(amounts) < 2_000:
        amounts[tuple(chance.sample(members, 2))] = int(10 ** (1 + 6 * chance.random()))  # type: ignore[index]  # a pair
    links = [
        transfer(one, other, HAIRBALL, "eth", str(amount), 1 + amount % 9) for (one, other), amount in amounts.items()
    ]
    links += [transfer(EXCHANGE, one, HAIRBALL, "eth", "30") | {"time_node": 1} for one in listed[280:282]]
    made = _map(held, [(members, magic), (listed[280:282], [])], links, 5.0)
    made["map_nodes"] += [{"kind": "time", "address": EXCHANGE, "time_node": 1}]
    return made


def _burnt(number: int) -> dict[str, list[dict[str, Any]]]:
    """One holder until the last instant; then no one holds anything, and no figure applies."""
    if number < len(INSTANTS) - 1:
        return _map({address(90_001): (1.0, {})}, [], [], 0.0)
    none = dict.fromkeys(["service_score", "gini_index", "nakamoto_coefficient", "cexs", "bundles"])
    return {"maps": [{"dt_update": "2026-06-01T00:00:00.000000"} | none]}


def _hostile() -> dict[str, list[dict[str, Any]]]:
    held = {address(50_000 + each): (0.05, {"label": label}) for each, label in enumerate(HOSTILE_LABELS)}
    held[SCRIPT] = (0.02, {"is_cex": True, "is_shown_on_map": False, "label": SCRIPT})
    chain = list(held)[:4]
    links = [transfer(one, other, SCRIPT, RIGHT_TO_LEFT, "9" * 60) for one, other in pairwise(chain)]
    return _map(held, [(chain, [])], links, 1.0)


def _map(
    held: Mapping[str, tuple[float, dict[str, Any]]],
    clusters: list[tuple[list[str], list[str]]],
    links: list[dict[str, Any]],
    score: float,
) -> dict[str, list[dict[str, Any]]]:
    """The rows of a map's five tables, but for the token."""
    nodes, groups, members = [], [], []
    ranked = sorted(held.items(), key=lambda one: -one[1][0])
    for rank, (holder, (share, more)) in enumerate(ranked, 1):
        amount = amount_columns("amount", EXACT if holder == TEAM else Decimal(str(share)) * 10**9)
        row = {"kind": "top_holder", "address": holder, "rank": rank, "share": share, "is_shown_on_map": True}
        nodes.append(row | {"degree": 3} | amount | more)
    for number, (holders, magic) in enumerate(clusters, 1):
        share = sum(held[one][0] for one in holders)
        counts = {"holder_count": len(holders), "magic_node_count": len(magic)}
        amount = amount_columns("amount", Decimal(str(share)) * 10**9)
        groups.append({"cluster_id": number, "share": share} | counts | amount)
        members += [{"cluster_id": number, "address": one, "kind": "holder"} for one in holders]
        members += [{"cluster_id": number, "address": one, "kind": "magic"} for one in magic]
        nodes += [{"kind": "magic", "address": one} for one in magic]
    parts = {"cexs": 0.2, "dexs": 0.1, "contracts": 0.15, "fresh_wallets": 0.0, "bundles": 0.11, "top_10_adjusted": 0.3}
    metrics = {"gini_index": 0.5, "herfindahl_hirschman_index": 0.1, "nakamoto_coefficient": 9, "service_score": score}
    return {
        "maps": [{"dt_update": "2026-06-01T00:00:00.000000"} | parts | metrics],
        "map_nodes": nodes,
        "grouped_transfers": links,
        "clusters": groups,
        "cluster_members": members,
    }
