"""A provider that misbehaves on a script: each question has a good answer, and a fate that may prevent it.

Fates are dealt by a seed, so that a run can be told apart from another by nothing but its seed. The server itself is
``tests.helpers.misbehaving``'s.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, repeat
from typing import Any
from urllib.parse import parse_qs, urlsplit

from holderlake.core.contract.times import to_unix
from tests.helpers.misbehaving import Step, answer, details, error, half, reset, scripted, silence, token_map

CHAIN = "eth"
HOLDERS = 3
BORN = 1_600_000_000
FAR_FUTURE = 4_000_000_000


@dataclass(frozen=True)
class Question:
    """A question: ``holders`` or ``map`` of a token as of a second."""

    endpoint: str
    token: str
    timestamp: int

    def address(self, number: int) -> str:
        """An address of this answer alone, so that rows can't be taken for another's."""
        text = f"{self.endpoint} {self.token} {self.timestamp} {number}"
        return "0x" + hashlib.sha256(text.encode()).hexdigest()[:40]


Good = Callable[[Question], Any]
Spoil = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Fate:
    """What becomes of a question: ``passing`` faults come once each, and a ``lasting`` one until the provider is well.

    The good answer may be ``bent`` to a strange one, or ``spoilt`` beyond reading.
    """

    name: str
    passing: tuple[Step, ...] = ()
    lasting: Step | None = None
    bent: Callable[[Any], Any] | None = None
    spoilt: Spoil | None = None


WELL = Fate("well")


@dataclass
class FaultyProvider:
    """Answers questions as their fates have it, and keeps its own books of what was asked and what it would bill."""

    fates: Mapping[Question, Fate]
    is_well: bool = False
    empty_after: int | None = None
    """Answers left in the caller's allowance; None for no limit."""
    refusal: Step | None = None
    """The refusal after the allowance is used up."""
    asked: Counter[Question] = field(default_factory=Counter)
    paid: Counter[Question] = field(default_factory=Counter)
    unknown: Counter[Question] = field(default_factory=Counter)
    """Calls of which the caller can't know whether they were billed."""
    refused: int = 0
    sent: dict[Question, bytes] = field(default_factory=dict)
    """The last paid answer."""
    address: str = ""
    _passing: dict[Question, Iterator[Step]] = field(default_factory=dict)
    _books: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def serving(self) -> Iterator[FaultyProvider]:
        """Serves in a thread of its own until the block ends."""
        with scripted(choose=lambda request: self._step(question_of(request.target))) as server:
            self.address = server.address
            yield self

    def _step(self, question: Question) -> Step:
        with self._books:
            return self._fated_step(question)

    def _fated_step(self, question: Question) -> Step:
        self.asked[question] += 1
        fate = WELL if self.is_well else self.fates.get(question, WELL)
        fault = next(self._passing.setdefault(question, chain(fate.passing, repeat(None))), fate.lasting)
        fault = fault or fate.lasting
        if fault is not None:
            self.unknown[question] += fault in UNKNOWN_OUTCOMES
            return fault
        if self.empty_after == 0 and self.refusal is not None:
            self.refused += 1
            return self.refusal
        if self.empty_after is not None:
            self.empty_after -= 1
        raw = answer_to(question, fate)
        self.paid[question] += 1
        self.sent[question] = raw
        return answer(raw, headers={"X-Credits-Cost": "51.00"} if fate.spoilt else None)


def question_of(target: str) -> Question:
    """The question of a request's target."""
    split = urlsplit(target)
    _, _, _, endpoint, _, token = split.path.split("/")
    return Question(endpoint, token, int(parse_qs(split.query)["timestamp"][0]))


def questions(tokens: Sequence[str], instants: Sequence[datetime]) -> dict[str, list[Question]]:
    """All questions of a backfill, by endpoint."""
    return {
        endpoint: [Question(endpoint, token, to_unix(instant)) for instant in instants for token in tokens]
        for endpoint in ("holders", "map")
    }


def deal(asked: Mapping[str, Sequence[Question]], seed: int) -> dict[Question, Fate]:
    """A fate for each question: every one of the endpoint's fates as often as its part in a hundred, at least once."""
    chosen = random.Random(seed)
    dealt = {}
    for endpoint, of_endpoint in asked.items():
        shuffled = chosen.sample(of_endpoint, len(of_endpoint))
        for fate, percent in (*FATES, *FATES_OF[endpoint]):
            for _ in range(-(-len(of_endpoint) * percent // 100)):
                dealt[shuffled.pop()] = fate
    return dealt


# ------------------------------------------------------------------------------------------------- good answers


def answer_to(question: Question, fate: Fate = WELL) -> bytes:
    """The bytes of the answer to a question."""
    good = _holders(question) if question.endpoint == "holders" else _map(question)
    raw = json.dumps(fate.bent(good) if fate.bent else good).encode()
    return fate.spoilt(raw) if fate.spoilt else raw


def _holders(question: Question) -> list[Any]:
    return [
        {"address": question.address(rank), "holder_data": _held(rank), "address_details": details()}
        for rank in range(1, HOLDERS + 1)
    ]


def _map(question: Question) -> dict[str, Any]:
    top = [
        {
            "address": question.address(rank),
            "holder_data": _held(rank),
            "address_details": details(),
            "is_shown_on_map": True,
        }
        for rank in range(1, HOLDERS + 1)
    ]
    transfer = {
        "from_address": question.address(1),
        "to_address": question.address(2),
        "rel_type": "GROUPED_TRANSFER",
        "data": {
            "total_value": 12.5,
            "total_transfers": 2,
            "first_date": BORN,
            "last_date": BORN + 60,
            "token_key": {"chain": CHAIN, "address": question.token},
        },
    }
    nodes = {"top_holders": top, "magic_nodes": [], "time_nodes": []}
    return token_map(relationships=[transfer]) | {"nodes": nodes}


def _held(rank: int) -> dict[str, Any]:
    return {"amount": 1000 / rank, "rank": rank, "share": 0.1 / rank}


# ------------------------------------------------------------------------------------------------------- faults

BROKEN = error(500, "internal_error")
GATEWAY = answer(b"<html><h1>502 Bad Gateway</h1></html>", 502, {"Content-Type": "text/html"})
RESET = reset()
SILENCE = silence()
HALF = half(token_map())
HURRIED = error(429, "rate_limited", Retry_After="1")
BY_A_SLOW_CLOCK = error(503, "unavailable", Retry_After="Wed, 01 Jan 2020 00:00:00 GMT")
UNKNOWN_OUTCOMES = (RESET, SILENCE, HALF)
ATTEMPTS = 3


def _text_for_a_number(good: Any) -> Any:
    _listed(good)[1]["holder_data"]["rank"] = "second"
    return good


def _a_holder_twice(good: Any) -> Any:
    _listed(good)[1]["address"] = _listed(good)[0]["address"]
    return good


def _listed(good: Any) -> Any:
    return good if isinstance(good, list) else good["nodes"]["top_holders"]


def _corrupt(raw: bytes) -> bytes:
    return raw.replace(b":", b"\xff", 1)


def _of(**changed: Any) -> Callable[[Any], Any]:
    def bent(good: Any) -> Any:
        good["relationships"][0]["data"].update(changed)
        return good

    return bent


def _of_an_unknown_type(good: Any) -> Any:
    good["relationships"][0].update(rel_type="BRIDGED", data={"bridge": "moonway"})
    return good


def _by_a_fast_clock(good: Any) -> Any:
    good["metadata"].update(dt_update="2096-10-02T07:06:40.000000", ts_update=FAR_FUTURE)
    return _of(last_date=FAR_FUTURE)(good)


def _young_holders(good: Any) -> Any:
    for holder in good:
        holder["address_details"]["first_activity_date"] = "2096-10-02T07:06:40Z"
    return good


FATES = (
    (Fate("a 500 once", (BROKEN,)), 4),
    (Fate("a reset and a gateway's page", (RESET, GATEWAY)), 1),
    (Fate("a gateway's page", (GATEWAY,)), 4),
    (Fate("a reset", (RESET,)), 4),
    (Fate("no answer in time", (SILENCE,)), 1),
    (Fate("half an answer", (HALF,)), 4),
    (Fate("too many calls", (HURRIED,)), 1),
    (Fate("a date long past to come back at", (BY_A_SLOW_CLOCK,)), 2),
    (Fate("a 500 until all attempts are used up", (BROKEN,) * ATTEMPTS), 2),
    (Fate("a 500 until it is well", lasting=BROKEN), 2),
    (Fate("a reset until it is well", lasting=RESET), 1),
    (Fate("a page with a 200", spoilt=lambda raw: b"<html>Welcome</html>"), 1),
    (Fate("an answer that ends too early", spoilt=lambda raw: raw[: len(raw) // 2]), 1),
    (Fate("text for a number", bent=_text_for_a_number), 1),
    (Fate("a holder twice", bent=_a_holder_twice), 1),
    (Fate("corrupt bytes", spoilt=_corrupt), 2),
)
"""With the part of each in a hundred."""
FATES_OF = {
    "holders": ((Fate("holders younger than today", bent=_young_holders), 3),),
    "map": (
        (Fate("a relationship of an unknown chain", bent=_of(token_key={"chain": "moon", "address": "0x1"})), 3),
        (Fate("a relationship of an unknown type", bent=_of_an_unknown_type), 3),
        (Fate("a clock that is fast", bent=_by_a_fast_clock), 3),
        (Fate("a date that is none", bent=_of(first_date=BORN * 10**9)), 1),
    ),
}


# ------------------------------------------------------------------------------------ random faults, and the books


@dataclass(frozen=True)
class Kind:
    """A kind of answer. ``named``: its headers name the charge and the balance. ``lands``: its rows can be read.

    ``charged`` is the chance that the provider charges the call. ``is_complete``: nothing is missing or unreadable.
    """

    name: str
    charged: float = 1.0
    named: bool = True
    lands: bool = True
    is_complete: bool = True


KINDS = {
    kind.name: kind
    for kind in (
        Kind("well"),
        Kind("well, unnamed", named=False),
        Kind("no amounts", is_complete=False),
        Kind("1e400", is_complete=False),
        Kind("no list", is_complete=False),
        Kind("odd address"),
        Kind("a charged page", lands=False, is_complete=False),
        Kind("a free page", charged=0.0, lands=False, is_complete=False),
        Kind("a page", charged=0.5, named=False, lands=False, is_complete=False),
        Kind("cut", charged=0.5, named=False, lands=False, is_complete=False),
        Kind("an error", charged=0.5, named=False, lands=False, is_complete=False),
        Kind("half", lands=False, is_complete=False),
        Kind("reset", charged=0.3, named=False, lands=False, is_complete=False),
        Kind("500", charged=0.0, named=False, lands=False, is_complete=False),
        Kind("403", charged=0.0, named=False, lands=False, is_complete=False),
        Kind("exhausted", charged=0.0, named=False, lands=False, is_complete=False),
    )
}
KEPT = ("a charged page",)
"""Kinds without rows that are archived: the question is not sent again."""
PRICES = {"holders": 51_00, "map": 100_00}
"""Prices of questions about a past second, in hundredths of a credit."""


@dataclass
class RandomProvider:
    """A provider whose answers are random kinds, with books of what it charged and what its headers named.

    ``answered`` has the last kind that was kept of each question, ``log`` all questions with their kinds.
    """

    seed: int
    charged: int = 0
    named: int = 0
    answered: dict[Question, Kind] = field(default_factory=dict)
    log: list[tuple[Question, Kind]] = field(default_factory=list)
    allowance: int = 10**9

    async def step(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        if "timestamp" not in target:
            await error(404)(reader, writer)
            return
        question = question_of(target)
        chance = random.Random(f"{self.seed} {question} {len(self.log)}")
        weights = [12 if name == "well" else 1 for name in KINDS]
        (kind,) = chance.choices([*KINDS.values()], weights)
        self.log.append((question, kind))
        cost = PRICES[question.endpoint] if chance.random() < kind.charged else 0
        self.charged += cost
        if kind.named or kind.lands:
            self.named += cost
        if kind.lands or kind.name in KEPT:
            self.answered[question] = kind
        await self._step(question, kind, cost)(reader, writer)

    def _step(self, question: Question, kind: Kind, cost: int) -> Step:  # noqa: PLR0911 - one for each kind
        balance = self.allowance - self.charged
        headers = {"X-Credits-Cost": f"{cost / 100:.2f}", "X-Credits-Remaining": f"{balance / 100:.2f}"}
        good = json.loads(answer_to(question))
        match kind.name:
            case "500" | "403":
                return error(int(kind.name))
            case "exhausted":
                return error(429, "credits_exhausted")
            case "reset":
                return RESET
            case "half":
                return half(good, headers)
            case "a page" | "a free page" | "a charged page":
                return answer(b"<html>Welcome</html>", headers=headers if kind.named else None)
            case "cut":
                return answer(json.dumps(good).encode()[:-20])
            case "an error":
                return answer({"detail": "upstream failed"})
            case _:
                raw = json.dumps(random_rows(question, kind)).replace('"1e400"', "1e400").encode()
                return answer(raw, headers=headers if kind.named else None)


def random_rows(question: Question, kind: Kind) -> Any:
    """Return the answer to a question, changed as its kind says."""
    good = json.loads(answer_to(question))
    listed = _listed(good)
    match kind.name:
        case "no amounts":
            for one in listed:
                one["holder_data"]["amount"] = None
        case "1e400":
            listed[0]["holder_data"]["amount"] = "1e400"
            listed[1]["holder_data"]["amount"] = "x"
        case "no list":
            listed.clear()
        case "odd address":
            listed[0]["address"] += "/% 7"
    return good
