"""A simulated year of a pipeline without manual help: service, code server and daemon under a shifted clock.

A seed deals events to the ticks of the schedule: crashes, outages, used-up credits, new keys, a full disk, a new chain,
a new token, an upgrade. The full run, with 365 daily and 500 hourly ticks:
``HOLDERLAKE_YEAR_DAYS=365 HOLDERLAKE_YEAR_HOURS=500 python -m pytest tests/end_to_end/test_simulated_year.py -s
--timeout 0``.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import duckdb
import pytest
from dagster import DagsterInstance

from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.lake.lake import FAILURES, Lake
from holderlake.core.provider.ledger.ledger import CreditLedger
from holderlake.core.storage.formats import write_format
from holderlake.service.billing.keys import Key
from tests.end_to_end.shifted_clock import ShiftedClock
from tests.end_to_end.simulated_host import Host
from tests.helpers.sample import the_world

DAYS: Final = int(os.environ.get("HOLDERLAKE_YEAR_DAYS", "4"))
HOURS: Final = int(os.environ.get("HOLDERLAKE_YEAR_HOURS", "4"))
SEED: Final = int(os.environ.get("HOLDERLAKE_YEAR_SEED", "20261123"))
FIRST_DAY: Final = datetime(2027, 1, 30)
TICK_AFTER: Final = timedelta(minutes=5)
YEAR: Final = {"crash": 20, "outage": 10, "exhausted": 3, "key": 2, "disk": 1, "chain": 1, "token": 1, "upgrade": 1}
"""Events of a year of 865 ticks. A shorter one has a part of them, at least one of each kind."""
VICTIMS: Final = ("host", "run", "daemon", "code", "service")
LATER: Final = tuple(timedelta(minutes=minutes) for minutes in (30, 90, 360, 720, 1_080))
"""Times after a disturbed tick at which the sensors look again, until the day is complete."""
STABLE: Final = {
    "holders": "chain, as_of, token_address, rank, address, amount_exact, label",
    "map_nodes": "chain, as_of, token_address, kind, address, rank, amount_exact",
    "grouped_transfers": "chain, as_of, token_address, from_address, to_address, total_value_exact, total_transfers",
    "clusters": "chain, as_of, token_address, cluster_id, amount_exact, holder_count",
}
"""Columns of tables that do not depend on the time of the request."""
FAMILIES: Final = ("tokens", "holders", "maps")
MOST_IN_FLIGHT: Final = 8
"""Calls that two runs may have open at once, of one or two tokens each."""


@dataclass(frozen=True)
class Sample:
    """Measurements after some ticks: partitions, megabytes on disk, and each process's memory and open files."""

    ticks: int
    partitions: int
    megabytes: dict[str, float]
    processes: dict[str, tuple[int, int]]


@dataclass
class Year:
    """The ticks of the schedule with their events, and what the schedule asked for so far."""

    host: Host
    instance: DagsterInstance
    chosen: random.Random
    spare: list[tuple[str, str]]
    """Chain and token that are watched from the events ``chain`` and ``token`` on."""
    expected: dict[tuple[str, datetime], frozenset[str]] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)
    victims: Iterator[str] = field(default_factory=lambda: cycle(VICTIMS))
    renewal: datetime | None = None

    def run(self) -> None:
        ticks = [FIRST_DAY + timedelta(days=day) for day in range(DAYS)]
        events = deal(ticks, self.chosen)
        for number in range(DAYS + HOURS):
            began = time.monotonic()
            if number == DAYS:
                self.every_hour()
            instant = ticks[number] if number < DAYS else self.next_hour()
            self.tick(instant, events.get(number, ()))
            what, missing = " ".join(events.get(number, ())), len(self.missing())
            say(f"{instant} {what} {time.monotonic() - began:.1f} s, {missing} missing")
            if number in {(DAYS + HOURS - 1) * part // 8 for part in range(9)}:
                self.samples.append(self.measure(number + 1))
        self.finish()

    def next_hour(self) -> datetime:
        """Return the next full hour. The hours since the last tick, in which an event lasted, are expected too."""
        last = max(when for _, when in self.expected)
        now = self.host.clock.now().replace(minute=0, second=0, microsecond=0)
        instant = max(last, now) + timedelta(hours=1)
        while (last := last + timedelta(hours=1)) < instant:
            self.expect(last)
        return instant

    def expect(self, instant: datetime) -> None:
        for chain, tokens in self.host.watchlist.items():
            self.expected[chain, instant] = frozenset(tokens)

    def every_hour(self) -> None:
        offsets = ", ".join(f'"{hour:02}:00"' for hour in range(24))
        self.host.schedule = f'cron = "5 * * * *"\noffsets = [{offsets}]'
        self.reload()

    def tick(self, instant: datetime, events: tuple[str, ...]) -> None:
        """Let one tick of the schedule happen, with the events before, during and after it."""
        for event in events:
            self.happened[event] += 1
            getattr(self, f"before_{event}", lambda: None)()
        when = instant + TICK_AFTER
        self.renew(when)
        self.expect(instant)
        self.host.clock.advance_to(when + timedelta(seconds=1))
        for event in events:
            getattr(self, f"during_{event}", lambda: None)()
        self.host.quiet(self.instance, when)
        for event in events:
            getattr(self, f"after_{event}", lambda: None)()
        if events and self.renewal is None:
            self.wait_until_complete(when, LATER if instant.hour == 0 else LATER[:1])

    def wait_until_complete(self, since: datetime, later: tuple[timedelta, ...]) -> None:
        for wait in later:
            if not self.missing():
                return
            self.host.clock.advance_to(since + wait)
            self.host.quiet(self.instance)

    def finish(self) -> None:
        """Let days without a tick of interest pass until nothing is missing."""
        for _ in range(60):
            if not self.missing():
                return
            self.host.clock.advance(timedelta(hours=6))
            self.renew(self.host.clock.now())
            self.host.quiet(self.instance)

    def missing(self) -> list[tuple[str, datetime]]:
        """Return the chains and instants that the lake lacks, or that lack a token."""
        lake, known = Lake(self.host.home / "lake"), self._complete
        for (chain, instant), tokens in self.expected.items():
            if (chain, instant) not in known:
                found = {one.family: one for one in lake.manifests(chain=chain, as_of=instant)}
                if all(name in found and tokens <= found[name].covered for name in FAMILIES):
                    known.add((chain, instant))
        return [one for one in self.expected if one not in known]

    def __post_init__(self) -> None:
        self._complete: set[tuple[str, datetime]] = set()

    # --------------------------------------------------------------------------------------------------- events

    def during_crash(self) -> None:
        """Kill a process in the middle of a tick, or the complete host; its supervisor starts it again."""
        victim, host = next(self.victims), self.host
        self.happened[f"crash of {victim}"] += 1
        host.wait(self.instance, lambda: bool(host.processes_of_runs()), "a run")
        time.sleep(self.chosen.random() * 3)
        if victim == "run":
            host.kill_run(self.chosen)
        elif victim == "host":
            ran = [name for name in ("service", "code", "daemon") if name in host.running]  # an outage may last
            host.kill(*ran)
            host.clock.advance(timedelta(minutes=self.chosen.choice((5, 60))))
            host.start(*ran)
        elif victim in host.running:
            host.kill(victim)
            host.start(victim)

    def before_outage(self) -> None:
        self.host.stop("service")

    def after_outage(self) -> None:
        self.host.clock.advance(timedelta(hours=self.chosen.choice((1, 5))))
        self.host.quiet(self.instance)
        self.host.start("service")

    def before_exhausted(self) -> None:
        """Leave the provider's account a part of a tick's credits until its next renewal."""
        key = self._key()
        self.host.keys.change(key.prefix, allowance=self.host.keys.balance(key.id).spent + 2_000)
        now = self.host.clock.now() + timedelta(hours=1)
        self.renewal = datetime(now.year + now.month // 12, now.month % 12 + 1, 1)

    def renew(self, when: datetime) -> None:
        if self.renewal and when >= self.renewal:
            self.host.keys.change(self._key().prefix, allowance=10**9)
            self.renewal = None

    def before_key(self) -> None:
        self._new_key = self.host.keys.rotate(self._key().prefix)

    def after_key(self) -> None:
        """Give the pipeline its new key, as the operator does after the notice."""
        self.host.use_key(self._new_key)
        self.host.restart("code")

    def during_disk(self) -> None:
        self.host.wait(self.instance, lambda: bool(self.host.processes_of_runs()), "a run")
        self.host.resize_disk(left=1_000_000)
        time.sleep(10)
        self.host.clock.advance(timedelta(minutes=20))
        time.sleep(10)
        self.host.resize_disk(left=None)

    def before_chain(self) -> None:
        self.watch(*self.spare[0])

    def before_token(self) -> None:
        self.watch(*self.spare[1])

    def watch(self, chain: str, token: str) -> None:
        self.host.watchlist.setdefault(chain, []).append(token)
        self.reload()

    def reload(self) -> None:
        """Load changed settings, and wait until the daemon has seen them: it looks every minute."""
        self.host.write_settings()
        self.host.restart("code")
        until = self.host.clock.now() + timedelta(minutes=3)
        self.host.wait(self.instance, lambda: self.host.clock.now() > until, "the daemon")

    def before_upgrade(self) -> None:
        """Stop all, and upgrade Dagster's history as if an earlier release of Dagster had written it."""
        self.host.stop("daemon", "code", "service")
        write_format(self.host.home / "dagster", 1, dagster="1.0")
        self.host.command("holderlake", "home", "upgrade", "--yes")
        self.host.start("service", "code", "daemon")

    def _key(self) -> Key:
        return self.host.keys.keys()[-1]

    # --------------------------------------------------------------------------------------------------- figures

    def measure(self, ticks: int) -> Sample:
        parts = {
            name: sum(path.stat().st_size for path in (self.host.home / name).rglob("*") if path.is_file()) / 1e6
            for name in ("lake", "archive", "dagster")
        }
        parts |= {name: (self.host.home / name).stat().st_size / 1e6 for name in ("ledger.sqlite", "warehouse.duckdb")}
        return Sample(ticks, len(self._complete), parts, self.host.memory())


def deal(days: list[datetime], chosen: random.Random) -> dict[int, tuple[str, ...]]:
    """Return the events of ticks by number. Credits are used up in the last two days of a month.

    The first tick and the last one have no event.
    """
    ticks = DAYS + HOURS
    counts = {kind: max(1, round(count * ticks / 865)) for kind, count in YEAR.items()}
    last_days = [number for number, day in enumerate(days[1:], 1) if (day + timedelta(days=2)).month != day.month]
    dealt: dict[int, list[str]] = {}
    for number in chosen.sample(last_days, min(counts.pop("exhausted"), len(last_days))):
        dealt.setdefault(number, []).append("exhausted")
    free = [number for number in range(1, ticks - 1) if number not in dealt]
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    chosen.shuffle(kinds)
    for number, kind in zip(islice(cycle(chosen.sample(free, len(free))), len(kinds)), kinds, strict=True):
        dealt.setdefault(number, []).append(kind)
    return {number: tuple(found) for number, found in dealt.items()}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@pytest.mark.long
@pytest.mark.skipif("HOLDERLAKE_YEAR_DAYS" not in os.environ, reason="takes minutes a day: set HOLDERLAKE_YEAR_DAYS")
def test_a_year_of_faults_ends_complete_and_paid_once(tmp_path: Path) -> None:
    chosen = random.Random(SEED)
    tokens: dict[str, list[str]] = {}
    for token in the_world().tokens:
        if token.address != "native":
            tokens.setdefault(token.chain, []).append(token.address)
    chains = sorted(tokens)
    host = Host(tmp_path, ShiftedClock(tmp_path / "clock", FIRST_DAY - timedelta(minutes=30)), {})
    host.watchlist = {chain: tokens[chain][:1] for chain in chains[:3]}
    with host.opened(), DagsterInstance.from_config(str(host.home / "dagster")) as instance:
        year = Year(host, instance, chosen, [(chains[3], tokens[chains[3]][0]), (chains[0], tokens[chains[0]][1])])
        try:
            year.run()
        finally:
            for name in host.running:
                say(f"== {name}\n" + (tmp_path / f"{name}.out").read_text()[-3_000:])
        host.stop("daemon", "code", "service")
        report(year)
        assert year.missing() == []
        assert_paid_once(year)
        assert_rows_of_the_undisturbed(year, tmp_path)
        assert_no_leak(year.samples)


def report(year: Year) -> None:
    say(f"{dict(year.happened)}; {len(year.expected)} partitions expected, {len(year.missing())} missing")
    for sample in year.samples:
        say(f"{sample}")


def assert_paid_once(year: Year) -> None:
    """Assert that the service billed each archived answer once, and at most the calls without an outcome again."""
    home, usage = year.host.home, year.host.keys.usage()
    billed, spent = Counter[str](), 0
    for row in usage:
        billed[row.endpoint] += row.requests
        spent += row.credits
    with CreditLedger(home / "ledger.sqlite") as ledger:
        unknown = Counter(entry.endpoint for entry in ledger.unsettled())
        rows = {row.name: row for row in ledger.report("endpoint")}
    once = Counter({name: row.calls - unknown[name] for name, row in rows.items()})
    answers = sum(1 for _ in AnswerArchive(home / "archive").stored())
    say(
        f"{billed.total()} calls billed, {answers} answers archived, {unknown.total()} calls without an outcome; "
        f"{spent} hundredths billed, {sum(row.spent for row in rows.values())} in the ledger, "
        f"{sum(row.reserved for row in rows.values())} reserved"
    )
    for endpoint in billed | once:
        assert once[endpoint] <= billed[endpoint] <= once[endpoint] + unknown[endpoint], endpoint
    assert answers == once.total()
    assert unknown.total() <= MOST_IN_FLIGHT * (year.happened["crash"] + year.happened["disk"])
    assert sum(row.spent for row in rows.values()) <= spent
    assert spent <= sum(row.spent + row.reserved for row in rows.values())


def assert_rows_of_the_undisturbed(year: Year, folder: Path) -> None:
    """Compare the lake with one that the engine computed directly, in one pass without a service or a fault.

    A run for a new chain also fetches the earlier instants of its day, which the schedule did not ask for.
    """
    instants = sorted({instant for _, instant in year.expected})
    (folder / "instants").write_text("\n".join(when.isoformat() for when in instants))
    (folder / "holderlake.toml").write_text(
        "[watchlist]\n" + "\n".join(f"{chain} = {found!r}" for chain, found in year.host.watchlist.items())
    )
    ours, year.host.home = year.host.home, folder / "undisturbed"
    for table in ("holders", "maps"):
        year.host.command("holderlake", "backfill", "--instants", str(folder / "instants"), "--table", table)
    year.host.home = ours
    subjects = {(chain, when, token) for (chain, when), found in year.expected.items() for token in found}
    with duckdb.connect() as db:
        db.execute("CREATE TABLE subjects (chain VARCHAR, as_of TIMESTAMP, token_address VARCHAR)")
        db.executemany("INSERT INTO subjects VALUES (?, ?, ?)", sorted(subjects))
        for table, columns in STABLE.items():
            for name, home in (("ours", ours), ("theirs", folder / "undisturbed")):
                db.register("table_rows", Lake(home / "lake").read(table))
                db.execute(
                    f"CREATE OR REPLACE TABLE {name} AS FROM table_rows "
                    f"SEMI JOIN subjects USING (chain, as_of, token_address) SELECT {columns}"
                )
            only_ours, only_theirs = (
                db.execute(f"FROM {one} EXCEPT ALL FROM {other} ORDER BY ALL").fetchmany(3)
                for one, other in (("ours", "theirs"), ("theirs", "ours"))
            )
            assert only_ours == only_theirs == [], table
            assert db.execute("SELECT count(*) FROM ours").fetchall() != [(0,)], table
    assert Lake(ours / "lake").read(FAILURES).num_rows == 0


def assert_no_leak(samples: list[Sample]) -> None:
    """Assert that processes keep their size, and that files grow no faster than the partitions."""
    early, last = samples[len(samples) // 2], samples[-1]
    for name, (megabytes, files) in last.processes.items():
        before, files_before = early.processes[name]
        assert megabytes <= before * 1.3 + 100, name
        assert files <= files_before + 50, name
    for name in ("lake", "archive", "ledger.sqlite"):
        growth = last.megabytes[name] - early.megabytes[name]
        partitions = last.partitions - early.partitions
        assert growth <= 2 * partitions * early.megabytes[name] / early.partitions + 5, name
