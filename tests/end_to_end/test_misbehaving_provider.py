"""A backfill from a provider that misbehaves: it ends, what is good lands, what is bad is named, nothing is paid twice.

``HOLDERLAKE_FAULTY_REQUESTS`` says how many requests there are. The full run: ``HOLDERLAKE_FAULTY_REQUESTS=2000
python -m pytest tests/end_to_end/test_misbehaving_provider.py -s`` (some minutes).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.cli.exit_codes import ExitCode
from holderlake.cli.outcome import Outcome
from holderlake.core.contract.times import from_unix, to_unix
from holderlake.core.dagster.runs import RunOptions, ingest_run
from holderlake.core.provider.client import ProviderClient
from holderlake.core.provider.errors import CreditsExhausted, ProviderError, TransientError
from holderlake.core.settings import Settings
from holderlake.core.workspace import Endpoint, Workspace
from holderlake.errors import RunFailed, SomeFailed
from holderlake.operations.maintenance.retry import Failure, failures, retry
from tests.end_to_end.faulty_provider import (
    ATTEMPTS,
    BROKEN,
    CHAIN,
    RESET,
    WELL,
    Fate,
    FaultyProvider,
    Kind,
    Question,
    RandomProvider,
    answer_to,
    deal,
    questions,
    random_rows,
)
from tests.helpers.examples import some
from tests.helpers.filling import fill
from tests.helpers.misbehaving import Step, error, scripted

pytestmark = pytest.mark.integration

REQUESTS = int(os.environ.get("HOLDERLAKE_FAULTY_REQUESTS", "150"))
TOKENS = [f"0x{number:040x}" for number in range(1, 39)]
INSTANTS = [datetime(2026, 1, 1) + timedelta(days=day) for day in range(REQUESTS // (2 * len(TOKENS)) + 1)]
ASKED = questions(TOKENS, INSTANTS)
FATES = deal(ASKED, seed=20261121)
PATIENCE = 10.0
CONCURRENCY = 16
USED_UP = "The credits are used up until 2026-12-01"
STREAMS = {"holders": HOLDERS, "map": MAPS}
"""The stream that requests each endpoint."""
COLUMNS = {
    "holders": ("address", "rank"),
    "map_nodes": ("address", "rank"),
    "grouped_transfers": ("from_address", "to_address", "rel_type", "transfer_chain", "last_date"),
}
"""Columns that identify a row of a token at an instant."""


@pytest.fixture
def provider() -> Iterator[FaultyProvider]:
    """A provider with a fate for each question."""
    with FaultyProvider(FATES).serving() as served:
        yield served


def workspace_of(provider: FaultyProvider, home: Path, tokens: list[str] = TOKENS) -> Workspace:
    """The workspace of a user who has the usual patience with a provider, in seconds that a test can wait."""
    settings = Settings(
        home=home,
        watchlist={CHAIN: tokens},
        provider={"timeout_seconds": PATIENCE, "attempts": ATTEMPTS, "concurrency": CONCURRENCY},
    )
    return Workspace(settings, lambda: Endpoint(provider.address, SecretStr("a key"), "scripted"))


def backfill(workspace: Workspace) -> None:
    """All questions, as a backfill asks them."""
    for family in STREAMS.values():
        fill(workspace, family, CHAIN, *INSTANTS)


@pytest.mark.long
def test_good_answers_are_committed_and_bad_ones_reported(provider: FaultyProvider, tmp_path: Path) -> None:
    unreadable = {question for question, fate in FATES.items() if fate.spoilt}
    unanswered = {question for question, fate in FATES.items() if fate.lasting}
    late = {question for question, fate in FATES.items() if fate.passing.count(BROKEN) == ATTEMPTS}

    with closing(workspace_of(provider, tmp_path)) as workspace:
        backfill(workspace)
        first = Counter(provider.asked)
        assert rows(workspace) == rows_of(everything() - unreadable - unanswered - late)
        assert named(workspace) == {
            **{question: ("malformed_answer", sha256(provider.sent[question])) for question in unreadable},
            **{question: (_code(FATES[question]), None) for question in unanswered | late},
        }
        assert {stored.sha256 for stored in workspace.archive.stored()} == {*map(sha256, provider.sent.values())}
        books_agree(workspace, provider)
        _report(provider)

        backfill(workspace)  # while it is still ill
        assert set(provider.asked - first) == unanswered | late
        assert rows(workspace) == rows_of(everything() - unreadable - unanswered)
        assert set(named(workspace)) == unreadable | unanswered
        assert set(provider.paid.values()) == {1}

        provider.is_well = True
        retried = retry(workspace, failures(workspace))
        assert questions_of(retried.landed) == unanswered
        assert questions_of(retried.failed) == unreadable
        assert rows(workspace) == rows_of(everything() - unreadable)
        assert set(provider.paid.values()) == {1}

        again = retry(workspace, failures(workspace), pay_again=True)
        assert questions_of(again.landed) == unreadable
        assert failures(workspace) == []
        assert rows(workspace) == rows_of(everything(), {**FATES, **dict.fromkeys(unreadable, WELL)})
        assert {question for question, times in provider.paid.items() if times > 1} == unreadable
        books_agree(workspace, provider)


@pytest.mark.parametrize(
    "refusal",
    [
        error(429, "credits_exhausted", detail=USED_UP),
        pytest.param(error(429, detail=USED_UP), marks=pytest.mark.long),
        pytest.param(error(402, detail=USED_UP), marks=pytest.mark.long),
    ],
    ids=["the contract's", "without a code", "payment required"],
)
def test_a_backfill_without_credits_stops_and_resumes_after_renewal(tmp_path: Path, refusal: Step) -> None:
    with (
        FaultyProvider({}, empty_after=len(everything()) // 3, refusal=refusal).serving() as provider,
        closing(workspace_of(provider, tmp_path)) as workspace,
    ):
        with pytest.raises(CreditsExhausted, match=USED_UP):
            backfill(workspace)
        assert 1 <= provider.refused <= CONCURRENCY
        assert named(workspace) == {}
        provider.empty_after = None
        backfill(workspace)
        assert rows(workspace) == rows_of(everything(), {})
        assert provider.paid == Counter(everything())
        assert provider.asked.total() == provider.paid.total() + provider.refused
        books_agree(workspace, provider)


def test_a_day_without_answers_does_not_block_other_days(tmp_path: Path) -> None:
    token, bad_day = TOKENS[0], INSTANTS[1]
    fates = {Question("holders", token, to_unix(bad_day)): Fate("a 500 until it is well", lasting=BROKEN)}
    days = [bad_day + timedelta(days=day) for day in range(30)]
    with (
        FaultyProvider(fates).serving() as provider,
        closing(workspace_of(provider, tmp_path, [token])) as workspace,
    ):
        fill(workspace, HOLDERS, CHAIN, *days)
        filled = {manifest.as_of for manifest in workspace.lake.manifests("holders") if manifest.covered}
        assert filled == {*days} - {bad_day}
        assert set(named(workspace)) == set(fates)


@pytest.mark.long
def test_an_outage_ends_a_backfill_before_everything_was_asked_in_vain(tmp_path: Path) -> None:
    tokens = TOKENS[:2]
    days = [INSTANTS[0] + timedelta(days=day) for day in range(100)]
    asked = questions(tokens, days)["holders"]
    with (
        FaultyProvider(dict.fromkeys(asked, Fate("an outage", lasting=BROKEN))).serving() as provider,
        closing(workspace_of(provider, tmp_path, tokens)) as workspace,
    ):
        with pytest.raises(TransientError):
            fill(workspace, HOLDERS, CHAIN, *days)
        assert len(provider.asked) < len(asked) / 2
        provider.is_well = True
        fill(workspace, HOLDERS, CHAIN, *days)
        assert set(provider.paid) == {*asked}
        assert failures(workspace) == []


# ------------------------------------------------------------------------------------------- what is expected


def everything() -> set[Question]:
    """All that a backfill asks for."""
    return {question for of_endpoint in ASKED.values() for question in of_endpoint}


def rows_of(asked: set[Question], fates: Mapping[Question, Fate] = FATES) -> dict[str, set[Any]]:
    """Return the rows of the answers to some questions."""
    expected: dict[str, set[Any]] = {table: set() for table in COLUMNS}
    for question in asked:
        about = (question.token, from_unix(question.timestamp))
        answer = json.loads(answer_to(question, fates.get(question, WELL)))
        holders = answer if question.endpoint == "holders" else answer["nodes"]["top_holders"]
        table = "holders" if question.endpoint == "holders" else "map_nodes"
        ranks = [one["holder_data"]["rank"] for one in holders]
        listed = zip(holders, [rank if isinstance(rank, int) else None for rank in ranks], strict=True)
        expected[table] |= {(*about, one["address"], rank) for one, rank in listed}
        if question.endpoint == "map":
            expected["grouped_transfers"] |= {(*about, *_told(one)) for one in answer["relationships"]}
    return expected


def _told(relationship: Mapping[str, Any]) -> tuple[Any, ...]:
    ends = (relationship["from_address"], relationship["to_address"], relationship["rel_type"])
    data = relationship["data"]
    if "token_key" not in data:
        return (*ends, None, None)
    return (*ends, data["token_key"]["chain"], from_unix(data["last_date"]))


# ------------------------------------------------------------------------------------------------ what is there


def rows(workspace: Workspace) -> dict[str, set[Any]]:
    """Return the rows in the lake by their keys; fail for a duplicate."""
    found = {}
    for table, columns in COLUMNS.items():
        listed = workspace.lake.read(table).select(["token_address", "as_of", *columns]).to_pylist()
        found[table] = {tuple(row.values()) for row in listed}
        assert len(found[table]) == len(listed), table
    return found


def named(workspace: Workspace) -> dict[Question, tuple[str, str | None]]:
    """Return the rows of ``failures`` with code and hash of the answer."""
    return {_question(one): (one.code, one.answer_hash) for one in failures(workspace)}


def questions_of(found: Sequence[Failure]) -> set[Question]:
    """Return the questions of some failures."""
    return {_question(one) for one in found}


def sha256(raw: bytes) -> str:
    """The name of an answer in ``failures``."""
    return hashlib.sha256(raw).hexdigest()


def books_agree(workspace: Workspace, provider: FaultyProvider) -> None:
    """Fails unless the ledger holds each answer as charged, and each call of unknown outcome as reserved."""
    report = workspace.ledger.report("endpoint")
    assert sum(row.calls for row in report) == provider.paid.total() + provider.unknown.total()
    assert len(workspace.ledger.unsettled()) == provider.unknown.total()


def _question(failure: Failure) -> Question:
    endpoint = next(endpoint for endpoint, family in STREAMS.items() if family.name == failure.family)
    return Question(endpoint, failure.subject, to_unix(failure.as_of))


def _code(fate: Fate) -> str:
    return "unreachable" if fate.lasting is RESET else "internal_error"


def _report(provider: FaultyProvider) -> None:
    dealt = Counter(fate.name for fate in FATES.values())
    sys.stdout.write(
        f"\n{len(everything())} requests: {provider.asked.total()} calls, {provider.paid.total()} answers paid, "
        f"{provider.unknown.total()} calls of unknown outcome, {len(FATES)} requests with a fate: {dict(dealt)}\n"
    )


# -------------------------------------------------------------------------------------- random sequences of faults


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[str, list[RandomProvider]]]:
    """The address of one server, and a list with the provider that it plays."""
    players: list[RandomProvider] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await players[0].step(server.received[-1].target, reader, writer)

    with scripted(play) as server:
        yield server.address, players


@pytest.mark.later(long=1)
@pytest.mark.parametrize("seed", range(some(500) if some(500) == 500 else 10))
def test_books_rows_and_exit_code_are_right_after_random_faults(
    stage: tuple[str, list[RandomProvider]], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, players = stage
    provider = RandomProvider(seed)
    players[:] = [provider]
    monkeypatch.setattr("holderlake.core.provider.client.ProviderClient", partial(ProviderClient, first_wait=0.001))
    tokens, instants = TOKENS[:3], [datetime(2026, 1, 1)]
    asked = {question for of_endpoint in questions(tokens, instants).values() for question in of_endpoint}
    settings = Settings(home=tmp_path, watchlist={CHAIN: tokens}, provider={"attempts": 2, "concurrency": 1 + seed % 3})
    endpoint = Endpoint(address, SecretStr("a key"), "random")
    with closing(Workspace(settings, lambda: endpoint)) as workspace:
        for _ in range(3):
            before = dict(provider.answered)
            code = _ingest(workspace, [CHAIN], instants)
            _check_books(workspace, provider)
            assert _holders(workspace) == {
                (*place, one["address"])
                for question, kind in provider.answered.items()
                if kind.lands
                for place in [(question.endpoint, question.token)]
                for one in _top(question, kind)
            }
            is_complete = asked == {question for question, kind in provider.answered.items() if kind.is_complete}
            assert (code == ExitCode.LANDED) is is_complete, provider.log
            if code == ExitCode.NOTHING_DONE:
                assert provider.answered == before or not _holders(workspace)


def _ingest(workspace: Workspace, chains: list[str], instants: list[datetime]) -> ExitCode:
    """Fetch holders and maps as a run does, and return the exit code of its outcome."""
    outcome = Outcome(workspace, chains, instants, ("holders", "maps"))

    def work() -> None:
        items = [(stream, chain, instants) for stream in STREAMS.values() for chain in chains]
        try:
            asyncio.run(ingest_run(workspace, "run", items, RunOptions(), lambda result: None))
        except ProviderError as error:
            raise RunFailed(str(error)) from error

    outcome.run(work)
    try:
        outcome.conclude(as_json=True)
    except SomeFailed:
        return ExitCode.SOME_FAILED
    except RunFailed:
        return ExitCode.NOTHING_DONE
    return ExitCode.LANDED


def _check_books(workspace: Workspace, provider: RandomProvider) -> None:
    totals = workspace.ledger.totals()
    assert totals.spent == provider.named, "each charge that a header or an answer names is booked once"
    assert provider.charged <= totals.spent + totals.reserved, "no charge is missing, not even an unknown one"
    assert totals.unexplained == 0, "no one else is accused"
    assert workspace.ledger.damage() is None


def _top(question: Question, kind: Kind) -> list[dict[str, Any]]:
    rows = random_rows(question, kind)
    return list(rows) if question.endpoint == "holders" else list(rows["nodes"]["top_holders"])


def _holders(workspace: Workspace) -> set[tuple[str, str, str]]:
    tables = {"holders": "holders", "map": "map_nodes"}
    return {
        (endpoint, row["token_address"], row["address"])
        for endpoint, table in tables.items()
        for row in workspace.lake.read(table).select(["token_address", "address"]).to_pylist()
    }
