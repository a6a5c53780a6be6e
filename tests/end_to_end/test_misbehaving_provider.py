"""Runs against a provider that misbehaves: good answers land, bad ones are named, nothing is paid twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
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
from holderlake.core.contract.times import to_unix
from holderlake.core.dagster.runs import RunOptions, ingest_run
from holderlake.core.provider.client import ProviderClient
from holderlake.core.provider.errors import ProviderError, TransientError
from holderlake.core.settings import Settings
from holderlake.core.workspace import Endpoint, Workspace
from holderlake.errors import RunFailed, SomeFailed
from holderlake.operations.maintenance.retry_failures import failures
from tests.end_to_end.faulty_provider import (
    CHAIN,
    Kind,
    Question,
    RandomProvider,
    answer_to,
    question_of,
    questions,
    random_rows,
)
from tests.helpers.examples import some
from tests.helpers.filling import fill
from tests.helpers.misbehaving import Received, Step, answer, error, scripted

pytestmark = pytest.mark.integration

TOKENS = [f"0x{number:040x}" for number in range(1, 4)]
BEGIN = datetime(2026, 1, 1)
STREAMS = {"holders": HOLDERS, "map": MAPS}
"""The stream that requests each endpoint."""


def workspace_at(address: str, home: Path, tokens: list[str]) -> Workspace:
    settings = Settings(
        home=home, watchlist={CHAIN: tokens}, provider={"timeout_seconds": 10, "attempts": 3, "concurrency": 16}
    )
    return Workspace(settings, lambda: Endpoint(address, SecretStr("a key"), "scripted"))


def test_a_day_without_answers_does_not_block_other_days(tmp_path: Path) -> None:
    days = [BEGIN + timedelta(days=day) for day in range(30)]

    def choose(request: Received) -> Step:
        question = question_of(request.target)
        return error(500) if question.timestamp == to_unix(BEGIN) else answer(answer_to(question))

    with scripted(choose=choose) as server, closing(workspace_at(server.address, tmp_path, TOKENS[:1])) as workspace:
        fill(workspace, HOLDERS, CHAIN, *days)
        filled = {manifest.as_of for manifest in workspace.lake.manifests("holders") if manifest.covered}
        assert filled == {*days} - {BEGIN}
        assert [(one.subject, one.as_of) for one in failures(workspace)] == [(TOKENS[0], BEGIN)]


@pytest.mark.long
def test_an_outage_ends_a_backfill_before_everything_was_asked_in_vain(tmp_path: Path) -> None:
    days = [BEGIN + timedelta(days=day) for day in range(100)]
    is_well, paid = False, Counter[Question]()

    def choose(request: Received) -> Step:
        question = question_of(request.target)
        paid[question] += is_well
        return answer(answer_to(question)) if is_well else error(500)

    with scripted(choose=choose) as server, closing(workspace_at(server.address, tmp_path, TOKENS[:2])) as workspace:
        with pytest.raises(TransientError):
            fill(workspace, HOLDERS, CHAIN, *days)
        assert len(paid) < len(days)
        is_well = True
        fill(workspace, HOLDERS, CHAIN, *days)
        assert {question for question, times in paid.items() if times} == {*questions(TOKENS[:2], days)["holders"]}
        assert failures(workspace) == []


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
    tokens, instants = TOKENS, [BEGIN]
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
