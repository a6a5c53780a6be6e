"""Fixtures: a small world, the service over it on a real port, and callers with their own keys."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from holderlake.analysis.entities.clusters import FOLDER
from holderlake.analysis.entities.links import find_entities
from holderlake.analysis.entities.sources import store_files, store_marks
from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.prices import CREDIT
from holderlake.core.contract.rules import Rules
from holderlake.engine.records import TRANSFERS, Label, TokenInfo
from holderlake.engine.store.store import Store
from holderlake.service.billing.keys import Key, KeyStore
from holderlake.service.run import BackgroundService
from holderlake.service.settings import ServiceSettings

DAY = 86_400
BEGIN = 1_700_000_000 // DAY * DAY
UNIT = 10**18


def _address(number: int) -> str:
    return f"0x{number:040x}"


@dataclass(frozen=True)
class World:
    """A store and the addresses in it."""

    store: Store
    begin: int = BEGIN
    token: str = _address(0xA1)
    young: str = _address(0xA2)
    wide: str = _address(0xA3)
    unsupported: str = _address(0xA4)
    nft: str = _address(0xA5)
    collectors: tuple[str, str] = (_address(0x7000), _address(0x7001))
    """The first held item 7 on the first day, the second from the next day."""
    strange_chain: str = "testnet-7"
    cex: str = _address(0xCE)
    wallets: tuple[str, ...] = field(default_factory=lambda: tuple(_address(0x1000 + n) for n in range(6)))
    """The first two are linked by transfers, the next two by a magic node; the last two used the exchange together."""
    magic: str = _address(0x3A)
    wide_amount: int = 12345678901234567890123456789012345678901234567890


def open_world(folder: Path) -> World:
    """Open the world of a folder. The caller closes its store."""
    return World(Store(folder, Rules(time_window=3_600)))


@pytest.fixture(scope="session")
def world_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small world in a store that tests copy; finding its entities takes as long as a test."""
    folder = tmp_path_factory.mktemp("world") / "store"
    made = open_world(folder)
    with made.store:
        made.store.add_tokens(
            [
                TokenInfo("eth", made.token, "Alpha", "ALP", 18, is_indexed=True),
                TokenInfo("eth", made.young, "Young", "YNG", 18),
                TokenInfo("eth", made.wide, "Wide", "WID", 18),
                TokenInfo("eth", made.unsupported, "Rebasing", "REB", 18, unsupported="its balances rebase"),
                TokenInfo(made.strange_chain, made.token, "Elsewhere", "ELS", 18),
            ]
        )
        made.store.add_labels([Label(made.cex, "eth", "test", "Some Exchange", "some-exchange", is_cex=True)])
        made.store.add_transfers(_transfers(made), "test")
        made.store.add_transfers(_item_transfers(made), "items")
        find_entities(store_files(made.store), store_marks(made.store), folder / FOLDER, confidence=0.3)
    return folder


@pytest.fixture(scope="session")
def world(world_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    opened = open_world(shutil.copytree(world_folder, tmp_path_factory.mktemp("shared world") / "store"))
    with opened.store:
        yield opened


@pytest.fixture
def own_world(world_folder: Path, tmp_path: Path) -> Iterator[World]:
    """A world that the test may change."""
    opened = open_world(shutil.copytree(world_folder, tmp_path / "own-store"))
    with opened.store:
        yield opened


def _transfers(world: World) -> pa.Table:
    a, b, c, d, e, f = world.wallets
    moves: list[tuple[str, str, str, int, int]] = [
        (world.token, ZERO_ADDRESS, a, 1_000 * UNIT, 0),
        (world.token, a, b, 300 * UNIT + 1, DAY),
        (world.token, ZERO_ADDRESS, c, 500 * UNIT, DAY),
        (world.token, ZERO_ADDRESS, d, 400 * UNIT, DAY),
        (world.token, ZERO_ADDRESS, e, 200 * UNIT, DAY),
        (world.token, ZERO_ADDRESS, f, 100 * UNIT, DAY),
        (world.token, ZERO_ADDRESS, world.cex, 600 * UNIT, DAY),
        (world.token, c, world.magic, 5 * UNIT, 2 * DAY),
        (world.token, world.magic, d, 5 * UNIT, 3 * DAY),
        (world.token, e, world.cex, 7 * UNIT, 4 * DAY + 10),
        (world.token, world.cex, f, 6 * UNIT, 4 * DAY + 20),
        (world.young, ZERO_ADDRESS, a, 10 * UNIT, 30 * DAY),
        (world.young, a, c, 1 * UNIT, 31 * DAY),
        (world.wide, ZERO_ADDRESS, a, world.wide_amount, 0),
        (world.unsupported, ZERO_ADDRESS, a, UNIT, 0),
    ]
    return transfers_table(world, moves)


def _item_transfers(world: World) -> pa.Table:
    first, second = world.collectors
    moves = [(world.nft, ZERO_ADDRESS, first, 1, 0), (world.nft, first, second, 1, DAY)]
    rows = transfers_table(world, moves, first=1_000).to_pylist()
    items = [row | {"token_standard": "erc721", "token_id": "7"} for row in rows]
    return pa.Table.from_pylist(items, schema=TRANSFERS)


def transfers_table(world: World, moves: list[tuple[str, str, str, int, int]], first: int = 1) -> pa.Table:
    """Return transfers (token, from, to, raw value, seconds since the beginning), one a block from ``first``."""
    rows: list[dict[str, Any]] = [
        {
            "chain": "eth",
            "token_address": token,
            "token_standard": "erc20",
            "from_address": sender,
            "to_address": receiver,
            "value": str(value),
            "token_id": None,
            "block_number": number,
            "block_time": world.begin + after,
            "tx_hash": f"0x{number:064x}",
            "log_index": 0,
            "time_kind": "block",
            "log_index_kind": "chain",
            "source": "test",
        }
        for number, (token, sender, receiver, value, after) in enumerate(moves, start=first)
    ]
    return pa.Table.from_pylist(rows, schema=TRANSFERS)


@dataclass(frozen=True)
class Caller:
    """A client of the service with its own key."""

    http: httpx.Client
    keys: KeyStore
    key: Key
    secret: str

    @property
    def spent(self) -> int:
        """Hundredths of a credit charged to the key this month, after waiting for open reservations."""
        for _ in range(30_000):
            balance = self.keys.balance(self.key.id)
            if not balance.reserved:
                return balance.spent
            time.sleep(0.01)
        raise TimeoutError("a reservation stays open")

    @property
    def reserved(self) -> int:
        """Reserved hundredths of a credit."""
        return self.keys.balance(self.key.id).reserved


def patient(settings: ServiceSettings | None = None) -> ServiceSettings:
    """Return settings that let the first answer wait for compiled kernels, on a busy machine for minutes."""
    return (settings or ServiceSettings()).model_copy(update={"answer_seconds": 900.0})


def _connect(base_url: str, keys: KeyStore, allowance: int, custom_plan: bool) -> Caller:
    secret = keys.create("test", allowance, custom_plan)
    key = keys.find(secret)
    assert key is not None
    # plain HTTP; loading the certificate authorities would take 28 ms a client
    http = httpx.Client(base_url=base_url, headers={"X-ApiKey": secret}, timeout=None, verify=False)
    return Caller(http, keys, key, secret)


@dataclass(frozen=True)
class Running:
    """A running service and its keys."""

    base_url: str
    keys: KeyStore
    _open: ExitStack

    def caller(self, allowance: int = 100_000 * CREDIT, custom_plan: bool = False) -> Caller:
        """Return a client with a new key, closed with the service."""
        made = _connect(self.base_url, self.keys, allowance, custom_plan)
        self._open.enter_context(made.http)
        return made


@pytest.fixture
def start(world: World, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start further services, with the test's own settings, keys or store."""
    with ExitStack() as stack:

        def started(
            keys: KeyStore | None = None, settings: ServiceSettings | None = None, store: Store | None = None
        ) -> Running:
            kept = keys or stack.enter_context(KeyStore(tmp_path / "keys.sqlite"))
            running = stack.enter_context(BackgroundService(store or world.store, kept, patient(settings)))
            return Running(running.base_url, kept, stack)

        yield started


@pytest.fixture(scope="session")
def service(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with ExitStack() as stack:
        keys = stack.enter_context(KeyStore(tmp_path_factory.mktemp("keys") / "keys.sqlite"))
        running = stack.enter_context(BackgroundService(world.store, keys, patient()))
        yield Running(running.base_url, keys, stack)


@pytest.fixture
def caller(service: Running) -> Caller:
    """A caller on a standard plan, without address metadata."""
    return service.caller()


@pytest.fixture
def custom(service: Running) -> Caller:
    """A caller on a custom plan."""
    return service.caller(custom_plan=True)
