"""A provider that gives random answers, good and faulty, and keeps books of its charges.

The server itself is ``tests.helpers.misbehaving``'s.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from holderlake.core.contract.times import to_unix
from tests.helpers.misbehaving import Step, answer, details, error, half, reset, token_map

CHAIN = "eth"
HOLDERS = 3
BORN = 1_600_000_000


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


def answer_to(question: Question) -> bytes:
    """The bytes of the good answer to a question."""
    return json.dumps(_holders(question) if question.endpoint == "holders" else _map(question)).encode()


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


def _listed(good: Any) -> Any:
    return good if isinstance(good, list) else good["nodes"]["top_holders"]


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
                return reset()
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
