"""How a day ends by what the provider does: right, healed after some runs, or red; and what it cost by both books.

The provider is the service with the sample world, behind a server that changes its answers. A day has one token and the
table ``holders``. Each run is a real run of Dagster.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from dagster import DagsterInstance, SkipReason

from holderlake.core.contract.times import utc_now
from tests.helpers.changed_service import Change, ChangedService, Real
from tests.helpers.filling import MakeWorkspace
from tests.helpers.misbehaving import (
    Received,
    Step,
    answer,
    details,
    endless,
    error,
    half,
    reset,
    sends,
    silence,
)
from tests.helpers.pipeline import Pipeline

pytestmark = pytest.mark.integration

CHAIN, DAY = "solana", "2026-05-01"
KEY = f"{CHAIN}|{DAY}"
RUNS = 4
"""Most runs of a day, the first one included."""


@dataclass(frozen=True)
class Behaviour:
    """A fault in the first ``times`` requests for holders, or in those of the first run, and the end of the day.

    ``play`` returns the step instead of the service's answer, which it gets if the request is ``charged``. ``ends`` is
    "right", "red", or the number of runs after which the day is complete.
    """

    name: str
    ends: str | int
    play: Callable[[Real], Step]
    charged: bool = False
    times: int | None = 1
    """None for all requests of the first run: how often it repeats a refused call depends on the machine."""
    known: bool = True
    """The client knows whether the call was charged."""


PAGE = b"<html><head><title>Attention Required</title></head><body>Blocked</body></html>"
NOTOK = {"status": "0", "message": "NOTOK", "result": "Max calls per sec rate limit reached"}
FOREVER = 10**6


def _plain(step: Step) -> Callable[[Real], Step]:
    return lambda real: step


def _set(path: str, value: Any) -> Callable[[Real], Step]:
    """Return a change of one field of the first holder; ``path`` is for example ``holder_data.rank``."""
    *parents, name = path.split(".")

    def change(holders: Any) -> None:
        place = holders[0]
        for parent in parents:
            place = place[parent]
        place[name] = value

    return lambda real: real.bent(change)


def _compressed(real: Real) -> Step:
    return real.step(gzip.compress(real.body), Content_Encoding="gzip")


def _chunked(real: Real) -> Step:
    head = "".join(f"{name}: {value}\r\n" for name, value in real.headers.items())
    middle = len(real.body) // 2
    chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in (real.body[:middle], real.body[middle:])]
    return sends(f"HTTP/1.1 200 OK\r\n{head}Transfer-Encoding: chunked\r\n\r\n".encode(), *chunks, b"0\r\n\r\n")


BEHAVIOURS = (
    # no answer, and no charge
    *(Behaviour(f"{status}", 2, _plain(error(status))) for status in (500, 502, 503, 408, 425)),
    Behaviour("503 twice", 3, _plain(error(503)), times=2),
    Behaviour("503 with Retry-After of an hour", 2, _plain(error(503, Retry_After="3600"))),
    Behaviour("too slow by its own words", 2, _plain(error(503, "too_slow"))),
    Behaviour("503 for ever", "red", _plain(error(503)), times=FOREVER),
    Behaviour("429 for the whole window", 2, _plain(error(429, "rate_limited")), times=None),
    Behaviour("429 for an hour", 2, _plain(error(429, "rate_limited", Retry_After="3600"))),
    Behaviour("429 that names no reason", 2, _plain(error(429)), times=None),
    Behaviour("credits used up, then topped up", 2, _plain(error(429, "credits_exhausted"))),
    Behaviour("credits used up for two attempts", 3, _plain(error(429, "credits_exhausted")), times=2),
    Behaviour("402", 2, _plain(error(402, detail="The credits are used up"))),
    Behaviour("credits used up for ever", "red", _plain(error(429, "credits_exhausted")), times=FOREVER),
    Behaviour("key refused, then accepted", 2, _plain(error(401, "invalid_key"))),
    Behaviour("key refused for ever", "red", _plain(error(401, "invalid_key")), times=FOREVER),
    Behaviour("firewall's 403", 2, _plain(answer(PAGE, 403))),
    Behaviour("redirect", 2, _plain(answer(b"", 302, {"Location": "https://example.org/login"}))),
    Behaviour("404 of a web server", 2, _plain(answer(PAGE, 404))),
    Behaviour("400 of a framework", 2, _plain(answer({"detail": "Bad Request"}, 418))),
    # bodies that are no answer, with HTTP 200 and without a charge
    Behaviour("firewall's page as 200", 2, _plain(answer(PAGE, headers={"Content-Type": "text/html"}))),
    Behaviour("firewall's page as 200, twice", 3, _plain(answer(PAGE)), times=2),
    Behaviour("firewall's page as 200 for ever", "red", _plain(answer(PAGE)), times=FOREVER),
    Behaviour("null", 2, _plain(answer(b"null"))),
    Behaviour("null for ever", "red", _plain(answer(b"null")), times=FOREVER),
    Behaviour("empty list", 2, _plain(answer([]))),
    Behaviour("empty list for ever", "red", _plain(answer([])), times=FOREVER),
    Behaviour("empty object", 2, _plain(answer({}))),
    Behaviour("empty body", 2, _plain(answer(b""))),
    Behaviour("204", 2, _plain(answer(b"", 204))),
    Behaviour("rate limit as 200", "right", _plain(answer(NOTOK))),
    Behaviour("rate limit as 200 for ever", "red", _plain(answer(NOTOK)), times=FOREVER),
    Behaviour("wrapper", 2, _plain(answer({"data": [], "success": True}))),
    Behaviour("error in a 200", 2, _plain(answer({"error": "try again"}))),
    Behaviour("word", 2, _plain(answer(b'"OK"'))),
    Behaviour("number", 2, _plain(answer(b"17"))),
    Behaviour("plain text", 2, _plain(answer(b"Service temporarily unavailable"))),
    Behaviour("cut JSON", 2, lambda real: real.step(real.body[: len(real.body) // 2], free=True)),
    # connections
    Behaviour("reset", 2, _plain(reset()), known=False),
    Behaviour("reset after the charge", 2, _plain(reset()), charged=True, known=False),
    Behaviour("silence", 2, _plain(silence()), known=False),
    Behaviour("silence after the charge", 2, _plain(silence()), charged=True, known=False),
    Behaviour("closed without an answer", 2, _plain(sends()), known=False),
    Behaviour("half an answer", 2, lambda real: half(real.content), charged=True, known=False),
    Behaviour("half an answer that names its cost", 2, lambda real: half(real.content, real.headers), charged=True),
    Behaviour("endless answer", 2, _plain(endless()), known=False),
    Behaviour("no HTTP", 2, _plain(sends(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")), known=False),
    Behaviour("504 of a gateway after the charge", 2, _plain(error(504)), charged=True, known=False),
    Behaviour("charged page", "red", lambda real: real.step(PAGE), charged=True),
    Behaviour("charged null", "red", lambda real: real.step(b"null"), charged=True),
    Behaviour("charged empty list", "red", lambda real: real.step([]), charged=True),
    Behaviour("charged cut JSON", "red", lambda real: real.step(real.body[:-40]), charged=True),
    # answers of the contract, and odd ones
    Behaviour("its own answer", "right", lambda real: real.step(), charged=True),
    Behaviour("compressed", "right", _compressed, charged=True),
    Behaviour("in chunks", "right", _chunked, charged=True),
    Behaviour("byte order mark", "right", lambda real: real.step(b"\xef\xbb\xbf" + real.body), charged=True),
    Behaviour("blanks around it", "right", lambda real: real.step(b"\n  " + real.body + b"\n"), charged=True),
    Behaviour("no header of credits", "right", lambda real: real.step(free=True), charged=True),
    Behaviour("text as content type", "right", lambda real: real.step(Content_Type="text/plain"), charged=True),
    Behaviour("201", "right", lambda real: real.step(status=201), charged=True),
    Behaviour("unknown field", "right", _set("colour", "blue"), charged=True),
    Behaviour("label with half a surrogate", "right", _set("address_details", details(label="\ud800")), charged=True),
    Behaviour("share above 1", "right", _set("holder_data.share", 1.5), charged=True),
    Behaviour("holder twice", "right", lambda real: real.bent(lambda holders: [*holders, holders[0]]), charged=True),
    Behaviour("no details", "right", _set("address_details", None), charged=True),
    Behaviour("no amount", "right", _set("holder_data", None), charged=True),
    Behaviour("text for a rank", "right", _set("holder_data.rank", "first"), charged=True),
    Behaviour("token without holders", "right", _plain(error(404, "no_holders")), times=FOREVER),
    Behaviour("unknown token", "right", _plain(error(404, "unknown_token")), times=FOREVER),
)

QUICK = frozenset(
    {
        *("its own answer", "compressed", "unknown token", "503", "credits used up, then topped up", "null"),
        *("firewall's page as 200", "empty list", "rate limit as 200", "charged empty list", "reset after the charge"),
    }
)
"""Behaviours that the tier ``integration`` tries; the tier ``long`` tries the others."""


def _serving(service: Any, behaviour: Behaviour, instance: DagsterInstance) -> ChangedService:
    left = iter(range(behaviour.times or 0))

    def choose(request: Received) -> Change | None:
        if "/holders/" not in request.target:
            return None
        is_changed = instance.get_runs_count() < 2 if behaviour.times is None else next(left, None) is not None
        return Change(behaviour.play, behaviour.charged) if is_changed else None

    return ChangedService(service.base_url, service.secret, choose)


@pytest.mark.later(long=len(QUICK))
@pytest.mark.parametrize(
    "behaviour", sorted(BEHAVIOURS, key=lambda one: one.name not in QUICK), ids=lambda one: one.name
)
def test_a_day_ends_as_it_should(
    make_workspace: MakeWorkspace, instance: DagsterInstance, sample_service: Any, behaviour: Behaviour
) -> None:
    tokens = make_workspace().settings.watchlist[CHAIN][:1]
    settings = {"attempts": 1, "timeout_seconds": 8.0, "rate_window_seconds": 0.2, "answer_megabytes": 1}
    with _serving(sample_service, behaviour, instance).serving() as provider:
        workspace = make_workspace(
            base_url=provider.address, watchlist={CHAIN: tokens}, provider={"url": provider.address, **settings}
        )
        pipeline = Pipeline(workspace, instance)
        ended = _end_of_the_day(pipeline)
    assert ended == behaviour.ends
    state = "failed" if ended == "red" else "materialised"
    assert pipeline.shown("holders")[state] == {KEY}
    totals, charged = workspace.ledger.totals(), provider.charged.total()
    assert totals.spent <= charged <= totals.spent + totals.reserved
    assert not behaviour.known or totals.spent == charged


def test_the_table_has_at_least_sixty_behaviours() -> None:
    assert len({one.name for one in BEHAVIOURS}) == len(BEHAVIOURS) >= 60


def _end_of_the_day(pipeline: Pipeline) -> str | int:
    """Launch the day by hand, then let the sensor repeat it, a day after each run."""
    if pipeline.by_hand(KEY, ["holders"]):
        return "right"
    for run in range(2, RUNS + 1):
        pipeline.at(utc_now() + timedelta(days=run))
        results = [found for found in pipeline.sensor("healing") if not isinstance(found, (str, SkipReason))]
        if any(is_success for _, is_success in results):
            return run
    return "red"
