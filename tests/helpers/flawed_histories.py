"""Small transfer histories with the flaws that published ones have. They are the same in each run.

- ``lossy_coin``: ERC-20 on Ethereum. The source dropped transfers, so addresses end below zero. Times are estimated to
  the hour, log indexes are synthetic, addresses have mixed case, some values are zero, much is burnt at 0x…dead.
- ``rounded_coin``: ERC-20 on BSC. The source rounded amounts to 15 digits, so addresses end with negative dust. All of
  it was burnt once. The supply is exactly 6,000,000.
- ``items``: ERC-721. One item has the largest id of 256 bits, two items move twice in one block, rows are not in order.
- ``mints``: ERC-721. Most rows are mints, log indexes are synthetic.
- ``items_with_a_gap``: ERC-721. One transfer is missing, so one balance is -1.

``balances`` recounts them in plain Python.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from holderlake.engine.records import TRANSFERS

Row = dict[str, Any]

ZERO: Final = "0x" + "0" * 40
DEAD: Final = "0x" + "dead".rjust(40, "0")
LARGEST_ID: Final = 2**256 - 1
UNIT: Final = 10**18
LOSSY, CLEAN = ("lossy_coin", "rounded_coin", "items_with_a_gap"), ("items", "mints")
NAMES: Final = (*LOSSY, *CLEAN)


def history(name: str) -> list[Row]:
    """Return the rows of a history as the store takes them: in the source's order, addresses in lower case."""
    return [dict(row) for row in _history(name)]


def token_of(name: str) -> tuple[str, str]:
    """Return the chain and the address of a history's token."""
    return _history(name)[0]["chain"], _history(name)[0]["token_address"]


def write(name: str, folder: Path) -> Path:
    """Write a history as its source publishes it, and return the path. Those of ``lossy_coin`` have mixed case."""
    rows = history(name)
    if name == "lossy_coin":
        rows = [{column: _mixed_case(value) for column, value in row.items()} for row in rows]
    path = folder / f"{name}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=TRANSFERS), path)
    return path


def balances(rows: Iterable[Row], until: int | None = None) -> dict[str, int]:
    """Recount all balances except zero, after the last row or at the end of a second. No one holds burnt amounts."""
    counted: Counter[str] = Counter()
    for row in rows:
        if until is None or row["block_time"] <= until:
            counted[row["from_address"]] -= int(row["value"])
            counted[row["to_address"]] += int(row["value"])
    return {address: balance for address, balance in counted.items() if balance and address != ZERO}


def below_zero(name: str) -> dict[str, int]:
    """Recount the balances below zero at the end of a history."""
    return {address: balance for address, balance in balances(history(name)).items() if balance < 0}


def owners(rows: Iterable[Row], until: int) -> dict[int, str]:
    """Recount the owner of each item at the end of a second: the receiver of its last transfer."""
    in_order = sorted(rows, key=lambda row: (row["block_number"], row["log_index"]))
    received = {int(row["token_id"]): row["to_address"] for row in in_order if row["block_time"] <= until}
    return {item: address for item, address in received.items() if address != ZERO}


# ---------------------------------------------------------------------- how they are made


@dataclass
class _Source:
    """A history under construction: its token, the clock of its chain, the true balances."""

    name: str
    chain: str
    standard: str
    block: int
    second: int
    log_index_kind: str = "synthetic"
    time_kind: str = "exact"
    rows: list[Row] = field(default_factory=list)
    held: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chance = Random(self.name)
        self.token = self.address("token")

    def address(self, of: object) -> str:
        return "0x" + sha256(f"{self.name} {of}".encode()).hexdigest()[:40]

    def move(self, sender: str, receiver: str, value: int, item: int | None = None, log_index: int = 0) -> None:
        """Add a transfer in a new transaction of the current block."""
        self.held[sender] -= value
        self.held[receiver] += value
        hour = self.second // 3_600 * 3_600
        self.rows.append(
            {
                "chain": self.chain,
                "token_address": self.token,
                "token_standard": self.standard,
                "from_address": sender,
                "to_address": receiver,
                "value": str(value),
                "token_id": None if item is None else str(item),
                "block_number": self.block,
                "block_time": hour if self.time_kind == "estimated" else self.second,
                "tx_hash": "0x" + sha256(f"{self.name} {len(self.rows)}".encode()).hexdigest(),
                "log_index": log_index,
                "time_kind": self.time_kind,
                "log_index_kind": self.log_index_kind,
                "source": f"{self.name} by chance",
            }
        )

    def wait(self, most: int) -> None:
        """Go on by a few blocks, or stay in the block."""
        blocks = self.chance.randint(0, most)
        self.block += blocks
        self.second += blocks * 12


def _lossy_coin() -> list[Row]:
    source = _Source("lossy_coin", "eth", "erc20", 23_970_798, 1_765_223_915, time_kind="estimated")
    chance, people = source.chance, [source.address(number) for number in range(150)]
    source.move(ZERO, source.token, 5 * 10**9 * UNIT)
    for person in people[:90]:
        source.wait(60)
        source.move(source.token, person, chance.randrange(10**5, 10**7) * UNIT)
    source.move(source.token, DEAD, 29 * source.held[source.token] // 100)
    first_trade = len(source.rows)
    for _ in range(420):
        source.wait(60)
        seller = chance.choice([person for person in people if source.held[person]])
        part = chance.choice((0.0, 0.2, 0.5, 1.0, 1.0))
        value = source.held[seller] if part == 1 else int(source.held[seller] * part)
        source.move(seller, chance.choice([*people, people[0], DEAD]), value)
    dropped = set(chance.sample(range(first_trade, len(source.rows)), 40))
    return [row for place, row in enumerate(source.rows) if place not in dropped]


def _rounded_coin() -> list[Row]:
    source = _Source("rounded_coin", "bsc", "erc20", 12_687_074, 1_637_035_653)
    chance, people = source.chance, [source.address(number) for number in range(120)]
    source.move(ZERO, people[0], 1_000 * UNIT)
    source.wait(900)
    source.move(people[0], ZERO, 1_000 * UNIT)
    source.block += 1
    source.second += 12
    source.move(ZERO, people[1], 6_000_000 * UNIT)
    for _ in range(420):
        source.wait(90)
        seller = chance.choice([person for person in people if source.held[person] > UNIT])
        whole = source.held[seller]
        value = whole if whole < 10**5 * UNIT else whole // chance.randint(2, 9) + chance.randrange(10**9)
        source.move(seller, chance.choice([*people[2:], *people[2:9]]), value)
    return [row | {"value": str(_rounded(int(row["value"])))} for row in source.rows]


def _rounded(value: int) -> int:
    """Round an amount to 15 digits, as a program with floating-point numbers does."""
    return round(value, 15 - len(str(value)))


def _items() -> list[Row]:
    source = _Source("items", "eth", "erc721", 3_842_612, 1_496_969_625, "exact")
    people = [source.address(number) for number in range(60)]
    held = _moved_items(source, people, [*range(149), LARGEST_ID], 400)
    for item in (7, LARGEST_ID):
        source.block += 1
        first, second = source.address("first"), source.address(f"second {item}")
        source.move(held[item], first, 1, item, log_index=90)
        source.move(first, second, 1, item, log_index=203)
    # the source lists its kinds of events one after another
    return sorted(source.rows, key=lambda row: (row["from_address"] != ZERO, -row["log_index"]))


def _mints() -> list[Row]:
    source = _Source("mints", "eth", "erc721", 12_287_564, 1_619_061_433)
    _moved_items(source, [source.address(number) for number in range(80)], list(range(240)), 80)
    return source.rows


def _items_with_a_gap() -> list[Row]:
    source = _Source("items_with_a_gap", "eth", "erc721", 12_253_142, 1_618_603_019)
    people = [source.address(number) for number in range(60)]
    held = _moved_items(source, people, list(range(1_001, 1_101)), 200)
    stranger = source.address("stranger")
    source.wait(9)
    source.move(held[1_050], stranger, 1, 1_050)
    missing = source.rows.pop()
    source.block = missing["block_number"] + 1
    source.move(stranger, people[0], 1, 1_050)
    return source.rows


def _moved_items(source: _Source, people: list[str], items: list[int], moves: int) -> dict[int, str]:
    """Mint the items, move some of them, at most once in a block, and return who has them."""
    held = {}
    for item in items:
        source.wait(30)
        held[item] = source.chance.choice(people)
        source.move(ZERO, held[item], 1, item, source.chance.randrange(300))
    for _ in range(moves):
        source.block += 1
        source.second += 12
        item = source.chance.choice(items)
        receiver = source.chance.choice(people)
        source.move(held[item], receiver, 1, item, source.chance.randrange(300))
        held[item] = receiver
    return held


def _mixed_case(value: object) -> object:
    """Return an address with some capital letters, and any other value as it is."""
    if not isinstance(value, str) or not value.startswith("0x") or len(value) != len(ZERO):
        return value
    return "0x" + "".join(letter.upper() if place % 3 else letter for place, letter in enumerate(value[2:]))


@cache
def _history(name: str) -> tuple[Row, ...]:
    makers = {
        "lossy_coin": _lossy_coin,
        "rounded_coin": _rounded_coin,
        "items": _items,
        "mints": _mints,
        "items_with_a_gap": _items_with_a_gap,
    }
    return tuple(makers[name]())
