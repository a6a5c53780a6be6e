"""The real service and backfills in separate processes, and the credits that both sides recorded."""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from json import dumps
from pathlib import Path

import httpx

from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.contract.tables import TABLES
from holderlake.core.contract.times import utc_now
from holderlake.core.lake.lake import Lake
from holderlake.core.provider.ledger.entries import Totals
from holderlake.core.provider.ledger.ledger import CreditLedger
from holderlake.core.warehouse.schema import column_name
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.service.billing.keys import KeyStore
from tests.helpers import processes
from tests.helpers.processes import Process
from tests.helpers.sample import the_world

CONCURRENCY = 8
_SERVE = """
import sys
from pathlib import Path
from holderlake.engine.store.store import Store
from holderlake.service.app import create_app
from holderlake.service.billing.keys import KeyStore
from holderlake.service.runtime.server import listen, serve_app
from holderlake.service.settings import ServiceSettings
folder, accounts, port = sys.argv[1:]
with Store(Path(folder)) as store, KeyStore(Path(accounts)) as keys:
    settings = ServiceSettings()
    serve_app(create_app(store, keys, settings), listen("127.0.0.1", int(port)), settings, "off")
"""

_FILL = "import sys; from tests.end_to_end import filler; sys.exit(filler.main(*sys.argv[1:]))"


@dataclass(frozen=True)
class Service:
    """A service in another process, and its keys."""

    base_url: str
    keys: KeyStore

    def customer(self) -> Customer:
        """Create an account without spent credits."""
        secret = self.keys.create("backfill", 10**9, custom_plan=True)
        return Customer(self.base_url, self.keys, secret)


@dataclass(frozen=True)
class Customer:
    """A client's account at a service."""

    base_url: str
    keys: KeyStore
    secret: str

    @property
    def spent(self) -> int:
        """Hundredths of a credit that were billed, after open reservations are settled."""
        key = self.keys.find(self.secret)
        assert key is not None
        processes.wait_until(lambda: not self.keys.balance(key.id).reserved)
        return self.keys.balance(key.id).spent

    @property
    def billed(self) -> Counter[str]:
        """The calls that were billed, by endpoint."""
        assert self.spent is not None  # all is settled
        rows = self.keys.usage(self.secret.split("_")[1])
        return sum((Counter({row.endpoint: row.requests}) for row in rows), Counter())


@contextmanager
def service_of(folder: Path, accounts: Path) -> Iterator[Service]:
    """The real service over a store, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ExitStack() as stack:
        keys = stack.enter_context(KeyStore(accounts))
        arguments = map(str, (folder, accounts, port))
        process = processes.start(_SERVE, *arguments, stderr=processes.DEVNULL)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        processes.wait_until(lambda: httpx.get(f"http://127.0.0.1:{port}/health", verify=False), process)
        yield Service(f"http://127.0.0.1:{port}", keys)


@dataclass(frozen=True)
class Backfill:
    """A backfill that may be started several times: home, customer, instants and further settings."""

    home: Path
    customer: Customer
    instants: Sequence[datetime]
    settings: Mapping[str, str] = field(default_factory=dict)

    def start(self, run: str) -> Process:
        """Start the backfill without Dagster."""
        instants = [instant.isoformat() for instant in self.instants]
        return self._start(_FILL, run, *instants)

    def start_command(self) -> Process:
        """Start the command ``holderlake backfill``."""
        listed = self.home.with_suffix(".instants")
        listed.write_text("\n".join(instant.isoformat() for instant in self.instants))
        return self._start(processes.HOLDERLAKE, "backfill", "--instants", str(listed))

    def rebuild(self) -> None:
        """Rebuild lake and warehouse from the archive."""
        ended(self._start(processes.HOLDERLAKE, "home", "rebuild"))

    def finish(self, run: str = "undisturbed") -> None:
        """Run until the backfill is complete."""
        ended(self.start(run))

    def _start(self, code: str, *arguments: str) -> Process:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDERLAKE_")}
        environment |= {
            "HOLDERLAKE_HOME": str(self.home),
            "HOLDERLAKE_PROVIDER__URL": self.customer.base_url,
            "HOLDERLAKE_PROVIDER__CONCURRENCY": str(CONCURRENCY),
            "HOLDERLAKE_API_KEY": self.customer.secret,
            **_sample_settings(),
            **self.settings,
        }
        return processes.start(
            code,
            *arguments,
            env=environment,
            stdout=processes.PIPE,
            stderr=processes.STDOUT,
        )

    @property
    def lake(self) -> Lake:
        return Lake(self.home / "lake")

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.home / "warehouse.duckdb")

    @property
    def answers(self) -> set[str]:
        """The digests of the archived answers."""
        return {stored.digest for stored in AnswerArchive(self.home / "archive").stored()}

    @property
    def totals(self) -> Totals:
        """The totals of the client's ledger."""
        with CreditLedger(self.home / "ledger.sqlite") as ledger:
            return ledger.totals()

    def in_flight(self) -> Counter[tuple[str, str]]:
        """The calls without a recorded outcome, by run and endpoint."""
        with CreditLedger(self.home / "ledger.sqlite") as ledger:
            return Counter((entry.run_id, entry.endpoint) for entry in ledger.unsettled())


@cache
def _sample_settings() -> dict[str, str]:
    """The watchlist and address sets of the sample world."""
    watched: dict[str, list[str]] = {}
    for token in the_world().tokens:
        if token.chain in ("eth", "base"):
            watched.setdefault(token.chain, []).append(token.address)
    sets = {name: {"addresses": addresses} for name, addresses in the_world().address_sets.items()}
    return {"HOLDERLAKE_WATCHLIST": dumps(watched), "HOLDERLAKE_ADDRESS_SETS": dumps(sets)}


def ended(process: Process, status: int = 0) -> str:
    """Wait for a process to end with a status, and return its output."""
    output, _ = process.communicate()
    assert process.returncode == status, output
    return output or ""


def same_lake(left: Backfill, right: Backfill) -> None:
    """Assert that both lakes hold the same rows in the same order, except for ``fetched_at``."""
    for table in TABLES:
        rows = [backfill.lake.read(table).drop_columns(["fetched_at"]) for backfill in (left, right)]
        assert rows[0].num_rows == rows[1].num_rows, table
        assert rows[0].equals(rows[1]), table


def warehouse_holds_the_lake(backfill: Backfill) -> None:
    """Assert that each table of the warehouse holds exactly the lake's rows."""
    with backfill.warehouse.connect() as connection:
        for table in TABLES:
            rows = backfill.lake.read(table)
            connection.register("lake", rows.rename_columns([column_name(name) for name in rows.column_names]))
            differing = connection.execute(
                f"SELECT (SELECT count(*) FROM (FROM {table} EXCEPT ALL FROM lake)), "
                f"(SELECT count(*) FROM (FROM lake EXCEPT ALL FROM {table}))"
            ).fetchall()
            assert differing == [(0, 0)], table
            connection.unregister("lake")


def away_from_midnight() -> None:
    """Wait if midnight is near: endpoints without history are requested once a day, so twice across midnight."""
    now = utc_now()
    left = 86_400 - (now.hour * 3_600 + now.minute * 60 + now.second)
    if left < 180:
        time.sleep(left + 1)
