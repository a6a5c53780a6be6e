"""Worlds of wallets with known owners, for ``benchmarks.clusters``: transfers, owners and decoys.

An owner of several wallets funds them in one of four ways: in one transaction (through a contract, or from a wallet),
one by one, in a chain, or from an exchange, which leaves no trace. The wallets then may act in step, pay into one
deposit address, pay each other, or be emptied into one wallet. Decoys are wallets of different owners that look
connected:

- users of an exchange, each with a deposit address;
- users of a faucet that pays new wallets of many owners in one transaction;
- market makers that pay each other many times;
- employees who are paid together each month, and pay each other;
- players of a game, and followers of a trader, who act in the same minutes;
- customers of a shop that forwards its income to an exchange;
- receivers of airdrops, one of them paid through a contract, and friends who pay each other;
- newcomers whose first coins come from a friend, from a small exchange without a label, or from a prize that pays
  strangers once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Column: TypeAlias = npt.NDArray[np.int64]
DAY: Final = 86_400
YEAR: Final = 365 * DAY
BEGIN: Final = 1_700_000_000
WAYS: Final = ("disperse", "one by one", "chain", "exchange")
_SPACE: Final = 10**15
_STEP: Final = 3**18
"""Address n has the number n * _STEP % _SPACE, so that addresses made after each other are not sorted by number."""
_SCHEMA: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("chain", "token_address", "from_address", "to_address")),
        ("value", pa.int64()),
        ("block_time", pa.int64()),
        ("tx_hash", pa.string()),
    ]
)


@dataclass
class World:
    """Transfers, the owner and the way of funding of each wallet that has one, and the exchanges' addresses."""

    random: Random
    rows: list[tuple[str, str, str, str, int, int, str]] = field(default_factory=list)
    owners: dict[str, int] = field(default_factory=dict)
    ways: dict[int, str] = field(default_factory=dict)
    hot: list[str] = field(default_factory=list)
    made: int = 0
    sent: int = 0

    def address(self) -> str:
        self.made += 1
        return f"0x{self.made * _STEP % _SPACE:040d}"

    def wallets(self, count: int, way: str = "decoy") -> list[str]:
        """Return new wallets of one new owner."""
        owner = len(self.ways)
        self.ways[owner] = way
        made = [self.address() for _ in range(count)]
        self.owners.update(dict.fromkeys(made, owner))
        return made

    def transaction(self) -> str:
        self.sent += 1
        return f"0x{self.sent:064d}"

    def pay(
        self, sender: str, receiver: str, value: int, at: int, tx: str | None = None, token: str = "native"
    ) -> None:
        self.rows.append(("eth", token, sender, receiver, value, at, tx or self.transaction()))

    def time(self, first: int = 0, last: int = YEAR) -> int:
        return BEGIN + self.random.randrange(first, last)

    def amount(self, mean: int) -> int:
        return int(mean * self.random.uniform(0.85, 1.15))

    def withdraw(self, wallet: str, at: int) -> None:
        """An exchange pays a wallet."""
        self.pay(self.random.choice(self.hot), wallet, self.amount(10**9), at)

    def deposit(self, wallets: Sequence[str], at: int) -> None:
        """Wallets pay into a new deposit address, which forwards everything to its exchange."""
        address, hot = self.address(), self.random.choice(self.hot)
        for place, wallet in enumerate(wallets):
            value = self.amount(10**8)
            self.pay(wallet, address, value, at + place * 700)
            self.pay(address, hot, value, at + place * 700 + 300)

    def table(self) -> pa.Table:
        columns = zip(*self.rows, strict=True)
        return pa.table([pa.array(column, one.type) for column, one in zip(columns, _SCHEMA, strict=True)], _SCHEMA)


def make_world(owners: int, seed: int = 1) -> World:
    """Return a world with this number of owners of several wallets, and decoys in proportion."""
    world = World(Random(seed))
    world.hot = [world.address() for _ in range(3)]
    contracts = [world.address() for _ in range(8)]
    tool = world.address()
    for number in range(owners):
        _owner(world, WAYS[number % len(WAYS)], contracts, tool)
    users = _exchange_users(world, 10 * owners)
    _faucet(world, max(2, owners // 10), contracts)
    _market_makers(world, 20)
    for _ in range(max(2, owners // 20)):
        _employer(world)
    _game(world, users)
    for contract in (None, world.address()):
        _airdrop(world, users, contract)
    _newcomers(world, users, owners)
    for _ in range(max(1, owners // 100)):
        _shop(world, users)
        _followers(world, users, contracts)
    return world


def _owner(world: World, way: str, contracts: Sequence[str], tool: str) -> None:
    random = world.random
    main, *others = world.wallets(min(60, 3 + int(random.expovariate(0.15))), way)
    start = world.time(0, YEAR // 2)
    world.withdraw(main, start - DAY)
    if way == "disperse":
        tx, through = world.transaction(), random.random() < 0.5
        values = [world.amount(10**7) for _ in others]
        if through:
            world.pay(main, tool, sum(values), start, tx)
        for other, value in zip(others, values, strict=True):
            world.pay(tool if through else main, other, value, start, tx)
    for place, other in enumerate(others):
        at = start + place * 1_000
        if way == "one by one":
            world.pay(main, other, world.amount(10**7), at)
        elif way == "chain":
            world.pay(others[place - 1] if place else main, other, 10**9 - place, at)
        elif way == "exchange":
            world.withdraw(other, at + random.randrange(30 * DAY))
    _habits(world, main, others, start, contracts)


def _habits(world: World, main: str, others: Sequence[str], start: int, contracts: Sequence[str]) -> None:
    """The wallets of an owner act in step, pay into a deposit address, pay each other, or are emptied."""
    random = world.random
    in_step, deposits, pays, empties = (random.random() < part for part in (0.7, 0.6, 0.3, 0.4))
    if in_step:
        for target in random.sample(contracts, 2):
            for _ in range(random.randrange(3, 7)):
                at = start + random.randrange(40 * DAY, 150 * DAY)
                for place, other in enumerate(others):
                    world.pay(other, target, 1_000, at + place * 5)
    if deposits:
        world.deposit(others, start + 160 * DAY)
    if pays:
        for _ in range(2 * len(others)):
            world.pay(*random.sample(others, 2), 10_000, start + random.randrange(10 * DAY, 150 * DAY))
    if empties:
        for place, other in enumerate(others):
            world.pay(other, main, 9 * 10**6, start + 170 * DAY + place * 60)


def _exchange_users(world: World, count: int) -> list[str]:
    """Users of an exchange, most with a deposit address of their own; some are friends and pay each other."""
    random, users = world.random, [world.wallets(1)[0] for _ in range(count)]
    for user in users:
        at = world.time(0, YEAR // 2)
        world.withdraw(user, at)
        if random.random() < 0.7:
            world.deposit([user], at + random.randrange(DAY, 100 * DAY))
    for _ in range(count // 200):
        friends = random.sample(users, min(len(users), 4))
        for _ in range(6):
            world.pay(*random.sample(friends, 2), 10_000, world.time(YEAR // 2))
    return users


def _faucet(world: World, batches: int, contracts: Sequence[str]) -> None:
    """A faucet pays new wallets of many owners in one transaction, and these then use the same contracts."""
    random, faucet = world.random, world.address()
    for _ in range(batches):
        tx, at = world.transaction(), world.time()
        for _ in range(30):
            (farmer,) = world.wallets(1)
            world.pay(faucet, farmer, 1_000_000, at, tx)
            for _ in range(4):
                world.pay(farmer, random.choice(contracts), 1_000, at + random.randrange(DAY, 90 * DAY))


def _market_makers(world: World, count: int) -> None:
    makers = [world.wallets(1)[0] for _ in range(count)]
    for maker in makers:
        world.withdraw(maker, BEGIN)
    for _ in range(200 * count):
        world.pay(*world.random.sample(makers, 2), world.amount(10**8), world.time())


def _employer(world: World) -> None:
    """An employer pays its staff each month in one transaction, and the staff pay each other."""
    employer = world.address()
    staff = [world.wallets(1)[0] for _ in range(world.random.randrange(5, 60))]
    for month in range(12):
        tx, at = world.transaction(), BEGIN + month * 30 * DAY + world.random.randrange(DAY)
        for one in staff:
            world.pay(employer, one, world.amount(10**9), at, tx)
    for _ in range(len(staff)):
        world.pay(*world.random.sample(staff, 2), 10_000, world.time(DAY))


def _game(world: World, users: Sequence[str]) -> None:
    """Many users play a game in the same hour, on 30 evenings."""
    game = world.address()
    for _ in range(30):
        at = world.time(YEAR // 2)
        for player in world.random.sample(users, len(users) // 10):
            world.pay(player, game, 100, at + world.random.randrange(3_600))


def _airdrop(world: World, users: Sequence[str], contract: str | None) -> None:
    """One payer gives tokens to all users, 200 in a transaction, directly or through a contract."""
    payer, token = world.address(), world.address()
    for start in range(0, len(users), 200):
        tx, at = world.transaction(), world.time(YEAR // 2)
        receivers = users[start : start + 200]
        if contract:
            world.pay(payer, contract, 500 * len(receivers), at, tx, token)
        for user in receivers:
            world.pay(contract or payer, user, 500, at, tx, token)


def _newcomers(world: World, users: Sequence[str], owners: int) -> None:
    """New wallets get their first coins from a friend, a small exchange without a label, or as a prize."""
    random = world.random
    for friend in random.sample(users, owners // 20):
        world.pay(friend, world.wallets(1)[0], world.amount(10**7), world.time(YEAR // 2))
    for _ in range(max(1, owners // 100)):
        exchange = world.wallets(1)[0]
        world.withdraw(exchange, BEGIN)
        for _ in range(random.randrange(60, 220)):
            (customer,), at = world.wallets(1), world.time(0, YEAR // 2)
            world.pay(exchange, customer, world.amount(10**9), at)
            world.pay(customer, exchange, world.amount(10**8), at + random.randrange(DAY, 100 * DAY))
    for _ in range(max(1, owners // 200)):
        payer, tx, at = world.wallets(1)[0], world.transaction(), world.time(0, YEAR // 2)
        world.withdraw(payer, at - DAY)
        for _ in range(random.randrange(10, 40)):
            world.pay(payer, world.wallets(1)[0], world.amount(10**8), at, tx)


def _shop(world: World, users: Sequence[str]) -> None:
    """Customers pay a shop, which forwards everything to one exchange."""
    shop, hot = world.address(), world.random.choice(world.hot)
    for customer in world.random.sample(users, world.random.randrange(5, 60)):
        at, value = world.time(YEAR // 2), world.amount(10**6)
        world.pay(customer, shop, value, at)
        world.pay(shop, hot, value, at + DAY)


def _followers(world: World, users: Sequence[str], contracts: Sequence[str]) -> None:
    """Strangers let a service copy a trader: they use the same contract in the same minute."""
    traders = world.random.sample(users, world.random.randrange(4, 16))
    for _ in range(8):
        at, contract = world.time(YEAR // 2), world.random.choice(contracts)
        for trader in traders:
            if world.random.random() < 0.8:
                world.pay(trader, contract, 1_000, at)


def write_crowd(path: Path, owners: int, copies: int, transfers: int, seed: int = 1) -> World:
    """Write copies of a world with other addresses, among random transfers, most of them with a few hubs.

    ``transfers`` is the number of rows in all. The first copy is the world returned.
    """
    world = make_world(owners, seed)
    draw, table = np.random.default_rng(seed), world.table()
    noise = transfers // copies - table.num_rows
    senders, receivers, sent = (_numbers(table[name]) for name in ("from_address", "to_address", "tx_hash"))
    with pq.ParquetWriter(path, _SCHEMA) as file:
        for copy in range(copies):
            addresses, hashes = copy * world.made * _STEP, copy * (world.sent + noise)
            file.write_table(
                _rows(
                    (senders + addresses) % _SPACE,
                    (receivers + addresses) % _SPACE,
                    table["value"],
                    table["block_time"],
                    sent + hashes,
                )
            )
            popular = (2_000 * draw.random((2, noise)) ** 3).astype(np.int64) + copies * world.made
            ends = np.where(draw.random((2, noise)) < 0.45, popular, draw.integers(0, copies * world.made, (2, noise)))
            file.write_table(
                _rows(
                    *(ends * _STEP % _SPACE),
                    pa.array(draw.integers(1, 10**12, noise)),
                    pa.array(draw.integers(BEGIN, BEGIN + YEAR, noise)),
                    hashes + world.sent + np.arange(noise),
                )
            )
    return world


def _rows(senders: Column, receivers: Column, value: pa.Array, block_time: pa.Array, sent: Column) -> pa.Table:
    """Return transfers of the coin with the names of these numbers."""
    chain, coin = (pa.repeat(name, len(sent)) for name in ("eth", "native"))
    return pa.table(
        [chain, coin, _names(senders, 40), _names(receivers, 40), value, block_time, _names(sent, 64)], _SCHEMA
    )


def _numbers(names: pa.ChunkedArray) -> Column:
    return pc.cast(pc.utf8_slice_codeunits(names, 2), pa.int64()).to_numpy()


def _names(numbers: Column, digits: int) -> pa.Array:
    return pc.binary_join_element_wise("0x", pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), digits, "0"), "")
