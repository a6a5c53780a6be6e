"""Backfills that are killed at random moments and started again: nothing is lost, made up, or paid for twice.

``HOLDERLAKE_KILLS`` says how often one backfill is killed; it then has ten requests and more for each kill. The full
run: ``HOLDERLAKE_KILLS=50 python -m pytest tests/end_to_end/test_kills.py -s`` (three minutes).
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from holderlake.core.archive.archive import AnswerArchive
from tests.end_to_end.backfills import (
    CONCURRENCY,
    Backfill,
    Customer,
    Service,
    ended,
    same_lake,
    warehouse_holds_the_lake,
)
from tests.end_to_end.filler import READY, ROOMS
from tests.helpers.processes import Process

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("HOLDERLAKE_KILLS", "4"))
REQUESTS = max(60, 10 * KILLS)
REQUESTS_AN_INSTANT, REQUESTS_ONCE = 23, 9
INSTANTS = [
    datetime(2026, 10, 1) - timedelta(days=7 * back)
    for back in range((REQUESTS - REQUESTS_ONCE) // REQUESTS_AN_INSTANT + 1)
]
SECONDS_A_REQUEST = 0.02
WRITES_A_REQUEST = {"archive": 1, "lake": 3, "warehouse": 0.05}
LEFT_BEHIND = {
    "an answer half kept": "archive/**/.*.part",
    "a commit half written": "lake/**/*.tmp",
    "a commit half finished": "lake/**/*.next",
    "a load half done": "warehouse.duckdb.next",
}
"""Files that a kill at that moment leaves in the home."""


def test_an_undisturbed_backfill_pays_for_each_request_once(undisturbed: Backfill) -> None:
    billed = undisturbed.customer.billed
    assert billed.total() >= REQUESTS
    assert billed.total() == len(undisturbed.answers)
    assert (undisturbed.totals.spent, undisturbed.totals.reserved) == (undisturbed.customer.spent, 0)
    warehouse_holds_the_lake(undisturbed)


def test_a_repeatedly_killed_backfill_only_repeats_open_calls(
    service: Service, undisturbed: Backfill, tmp_path: Path
) -> None:
    backfill = Backfill(tmp_path / "home", service.customer(), INSTANTS)
    left_behind: Counter[str] = Counter()
    for number, reach in enumerate(_reaches(random.Random(20261121), KILLS)):
        before = _left_behind(backfill.home)
        _kill(backfill.start(f"life {number}"), *reach)
        left_behind.update({name for name, _ in _left_behind(backfill.home) - before})
    backfill.finish("last life")

    _ends_like(backfill, undisturbed)
    in_flight = backfill.in_flight()
    lives = Counter({run: 0 for run, _ in in_flight})
    for (run, _), calls in in_flight.items():
        lives[run] += calls
    assert "last life" not in lives
    assert all(calls <= CONCURRENCY for calls in lives.values())
    _report(backfill, undisturbed, lives, left_behind)

    backfill.rebuild()
    _ends_like(backfill, undisturbed)


def test_a_killed_backfill_command_resumes_to_the_same_result(
    service: Service, undisturbed: Backfill, tmp_path: Path
) -> None:
    backfill = Backfill(tmp_path / "home", service.customer(), INSTANTS)
    chosen, kills = random.Random(20261122), 2
    for number in range(kills):
        share = (number + chosen.random()) / kills
        process = backfill.start_command()
        _wait_for_answers(process, backfill, int(share * len(undisturbed.answers)))
        _is_killed(process)
    ended(backfill.start_command())
    _ends_like(backfill, undisturbed)


def _reaches(chosen: random.Random, kills: int) -> Iterator[tuple[str, int, float]]:
    """For each kill: what it waits for, how often, and for how many seconds more. Together they spare the last part."""
    share = REQUESTS / (kills + 1)
    for number in range(kills):
        aim = (READY, *ROOMS)[number % (1 + len(ROOMS))]
        requests = chosen.uniform(0, 1.4 * share)
        if aim == READY:
            yield aim, 1, requests * SECONDS_A_REQUEST
        else:
            yield aim, 1 + int(requests * WRITES_A_REQUEST[aim]), chosen.choice([0, 0, 0.002, 0.01])


def _kill(process: Process, aim: str, times: int, seconds: float) -> None:
    """Kills a backfill so many seconds after it said a word so many times."""
    assert process.stdout is not None
    said = Counter[str]()
    while said[aim] < times:
        word = process.stdout.readline().strip()
        assert word, f"it ended before it was killed: {said}"
        said[word] += 1
    time.sleep(seconds)
    _is_killed(process)


def _left_behind(home: Path) -> set[tuple[str, Path]]:
    return {(name, path) for name, pattern in LEFT_BEHIND.items() for path in home.glob(pattern)}


def _is_killed(process: Process) -> None:
    process.kill()
    said, _ = process.communicate()
    assert process.returncode == -9, said


def _wait_for_answers(process: Process, backfill: Backfill, count: int) -> None:
    archive = AnswerArchive(backfill.home / "archive")
    while archive.size().answers < count:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)


def _ends_like(backfill: Backfill, undisturbed: Backfill) -> None:
    """The same rows in lake and warehouse, and in no book more than what was in flight when it was killed."""
    same_lake(backfill, undisturbed)
    warehouse_holds_the_lake(backfill)
    assert backfill.answers == undisturbed.answers
    once, billed = undisturbed.customer.billed, backfill.customer.billed
    unknown = Counter[str]()
    for (_, endpoint), calls in backfill.in_flight().items():
        unknown[endpoint] += calls
    assert all(once[endpoint] <= billed[endpoint] <= once[endpoint] + unknown[endpoint] for endpoint in billed | once)
    totals, spent = backfill.totals, backfill.customer.spent
    assert totals.spent <= spent <= totals.spent + totals.reserved


def _report(backfill: Backfill, undisturbed: Backfill, lives: Counter[str], left_behind: Counter[str]) -> None:
    customer: Customer = backfill.customer
    once, billed = undisturbed.customer.billed.total(), customer.billed.total()
    sys.stdout.write(
        f"\n{KILLS} kills of a backfill of {once} requests: {billed} calls billed, {billed - once} of them a second "
        f"time; {lives.total()} calls were in flight, at most {max(lives.values(), default=0)} at a kill.\n"
        f"Kills that left behind: {dict(left_behind)}; at the end {len(_left_behind(backfill.home))} such files.\n"
        f"Hundredths of a credit: {customer.spent} billed; the ledger says {backfill.totals.spent} spent and "
        f"{backfill.totals.reserved} reserved.\n"
    )
