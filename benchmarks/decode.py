"""The cost of an answer from bytes to Arrow tables: CPU milliseconds of each way, side by side.

    python -m benchmarks.decode [--answers 20] [--rounds 15]

One process, one thread: the ways take turns over the same answers, and of each way its middle round counts. The
first two make no tables: they are what reading JSON costs, into plain data and into structs. The last one reads the
same answers with one odd value in each, which puts them into the lenient mode.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from statistics import median
from typing import Any, Final

import msgspec

from holderlake.core.contract import exact_json
from holderlake.core.contract.models import AddressMetadata, GroupedTransfer, Holder, Map
from holderlake.core.contract.tables import TABLES, with_fetched_at
from holderlake.core.contract.times import from_unix
from holderlake.core.decoding.answers import address_rows, holder_rows, map_tables, parse, subgraph_rows

NODES: Final = 80
RELATIONSHIPS: Final = 1_000
AS_OF: Final = datetime(2026, 11, 20)
Plain = dict[str, Any]


def address(rng: random.Random) -> str:
    """Return a random EVM address."""
    return f"0x{rng.getrandbits(160):040x}"


def amount(rng: random.Random) -> msgspec.Raw:
    """Return a random amount as a JSON number: up to 9 digits before the point and up to 18 after it."""
    return msgspec.Raw(f"{rng.randrange(10 ** rng.randint(1, 9))}.{rng.randrange(10 ** rng.randint(1, 18))}".encode())


def details(rng: random.Random) -> Plain:
    """Return the metadata of a random address."""
    flags = {f"is_{kind}": rng.random() < 0.1 for kind in ("supernode", "contract", "cex", "dex")}
    return {
        "degree": rng.randrange(5_000),
        "inward_relations": rng.randrange(3_000),
        "outward_relations": rng.randrange(3_000),
        **flags,
        "label": f"Exchange {rng.randrange(100)}" if flags["is_cex"] else None,
        "entity_id": None,
        "first_activity_date": f"{from_unix(rng.randrange(10**9, 17 * 10**8)).isoformat()}Z",
        "is_paid_label": False,
    }


def transfer(rng: random.Random, ends: tuple[str, str], token: str) -> Plain:
    """Return a relationship between two addresses (``ends``) with random values."""
    data = {
        "total_value": amount(rng),
        "total_transfers": rng.randrange(1, 500),
        "first_date": rng.randrange(10**9, 17 * 10**8),
        "last_date": rng.randrange(17 * 10**8, 18 * 10**8),
        "token_key": {"chain": "eth", "address": token},
    }
    return {"from_address": ends[0], "to_address": ends[1], "rel_type": "GROUPED_TRANSFER", "data": data}


def holder(rng: random.Random, own: str, rank: int) -> Plain:
    """Return a holder with random values."""
    held = {"amount": amount(rng), "rank": rank, "share": rng.random() / NODES}
    return {"address": own, "holder_data": held, "address_details": details(rng)}


def a_map(seed: int) -> bytes:
    """Return the JSON of a map: 80 nodes, ten magic nodes, two time windows, and 1,000 relationships."""
    rng = random.Random(seed)
    token, *nodes = (address(rng) for _ in range(NODES + 1))
    top, magic, timed = nodes[:-12], nodes[-12:-2], nodes[-2:]
    pairs = rng.sample([(one, other) for one in nodes for other in nodes if one != other], RELATIONSHIPS)
    transfers = [transfer(rng, pair, token) for pair in pairs]
    figures = ("cexs", "dexs", "contracts", "fresh_wallets", "top_10_adjusted", "bundles")
    scores = ("service_score", "gini_index", "herfindahl_hirschman_index")
    return exact_json.encode(
        {
            "metadata": {"dt_update": "2026-11-20T00:00:00.123456", "ts_update": 1_795_132_800},
            "metrics": {
                "supply_stats": {name: rng.random() for name in figures},
                "scores": {name: rng.random() for name in scores} | {"nakamoto_coefficient": 7},
            },
            "nodes": {
                "top_holders": [holder(rng, own, rank) | {"is_shown_on_map": True} for rank, own in enumerate(top, 1)],
                "magic_nodes": [
                    {"address": own, "address_details": details(rng), "is_shown_on_map": True} for own in magic
                ],
                "time_nodes": [
                    {"address": own, "relationships": transfers[50 * n : 50 * n + 50]} for n, own in enumerate(timed)
                ],
            },
            "relationships": transfers[100:],
            "clusters": [
                {
                    "share": rng.random() / 10,
                    "amount": amount(rng),
                    "holder_count": 8,
                    "holders": top[8 * n : 8 * n + 8],
                    "magic_node_count": 1,
                    "magic_nodes": magic[n : n + 1],
                }
                for n in range(8)
            ],
        }
    )


def some_holders(seed: int) -> bytes:
    """Return the JSON of a list of 500 holders with their details."""
    rng = random.Random(seed)
    return exact_json.encode([holder(rng, address(rng), rank) for rank in range(1, 501)])


def some_relationships(seed: int) -> bytes:
    """Return the JSON of 1,000 relationships among 80 addresses."""
    rng = random.Random(seed)
    token, *own = (address(rng) for _ in range(NODES + 1))
    pairs = rng.sample([(one, other) for one in own for other in own if one != other], RELATIONSHIPS)
    return exact_json.encode([transfer(rng, pair, token) for pair in pairs])


def some_addresses(seed: int) -> bytes:
    """Return the JSON of the details of 1,000 addresses."""
    rng = random.Random(seed)
    return exact_json.encode([{"address": address(rng), "address_details": details(rng)} for _ in range(1_000)])


def usual(ways: dict[str, Callable[[bytes], object]], answers: Sequence[bytes], rounds: int) -> dict[str, float]:
    """Return the median CPU milliseconds per answer of each way, over rounds in which the ways take turns."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.process_time()
            for raw in answers:
                way(raw)
            found[name].append(1_000 * (time.process_time() - start) / len(answers))
    return {name: median(times) for name, times in found.items()}


def report(title: str, answers: Sequence[bytes], ways: dict[str, Callable[[bytes], object]], rounds: int) -> None:
    """Print the cost of each way, and its ratio to the cost of the last way."""
    found = usual(ways, answers, rounds)
    *_, last = found.values()
    print(f"\n{title}: {len(answers)} answers of {sum(map(len, answers)) / len(answers) / 1_000:.0f} kB")
    for name, milliseconds in found.items():
        print(f"  {name:<44}{milliseconds:8.2f} ms{last / milliseconds:8.1f} x")


def ways_of(shape: Any, decode: Callable[[bytes], object]) -> dict[str, Any]:
    """Return the ways to read one kind of answer, by name: only JSON, structs, tables, and tables with an odd value."""
    return {
        "plain data, nothing more (msgspec)": msgspec.json.decode,
        "structs (parse)": lambda raw: parse(raw, shape),
        "bytes to tables (holderlake.core.decoding)": decode,
        "an odd value in it (decoding.lenient)": lambda raw: decode(odd(raw)),
    }


def odd(raw: bytes) -> bytes:
    """Return an answer in which one integer is too large for its column."""
    return re.sub(rb'("degree"|"total_transfers"):[0-9]+', rb"\1:1e30", raw, count=1)


def main() -> None:
    """Print the cost of each kind of answer by each way of decoding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=20, help="different answers of each kind")
    parser.add_argument("--rounds", type=int, default=15, help="times that each way reads them all")
    chosen = parser.parse_args()
    kinds: list[tuple[str, Callable[[int], bytes], Any, Callable[[bytes], object]]] = [
        (
            f"map of {NODES} nodes and {RELATIONSHIPS} relationships",
            a_map,
            Map,
            lambda raw: map_tables([raw], "eth", ["native"], AS_OF),
        ),
        (
            "500 holders",
            some_holders,
            list[Holder],
            lambda raw: holder_rows([raw], "eth", ["native"], AS_OF),
        ),
        (
            "subgraph of 1,000 relationships",
            some_relationships,
            list[GroupedTransfer],
            lambda raw: subgraph_rows([raw], "eth", ["friends"], AS_OF),
        ),
        (
            "1,000 addresses",
            some_addresses,
            list[AddressMetadata],
            lambda raw: address_rows([raw], "eth", (), AS_OF),
        ),
    ]
    for title, made, shape, decode in kinds:
        answers = [made(seed) for seed in range(chosen.answers)]
        report(title, answers, ways_of(shape, decode), chosen.rounds)
    tables = map_tables([a_map(0)], "eth", ["native"], AS_OF).tables
    stamped = usual(
        {"": lambda _: [with_fetched_at(TABLES[name], rows, AS_OF) for name, rows in tables.items()]}, [b""], 200
    )
    print(f"\nfetched_at on a map's tables: {stamped['']:.2f} ms")


if __name__ == "__main__":
    main()
