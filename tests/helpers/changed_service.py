"""The service with the sample world behind a server that changes some of its answers, and keeps books."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from holderlake.core.contract.prices import parse_credits
from tests.helpers.misbehaving import Received, Step, answer, scripted

COST = "X-Credits-Cost"


@dataclass(frozen=True)
class Real:
    """The service's own answer; without a status if the request was not forwarded."""

    status: int = 0
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    def step(self, body: Any = None, status: int | None = None, *, free: bool = False, **headers: str) -> Step:
        """Return the answer, with another body, status or headers, and without its cost if it is ``free``."""
        own = {name: value for name, value in self.headers.items() if not (free and name.startswith("X-Credits"))}
        own |= {name.replace("_", "-"): value for name, value in headers.items()}
        return answer(self.body if body is None else body, status or self.status, own)

    @property
    def content(self) -> Any:
        return json.loads(self.body)

    def bent(self, change: Callable[[Any], Any]) -> Step:
        """Return the answer after a change of its content, in place or as a new value."""
        content = self.content
        changed = change(content)
        return self.step(content if changed is None else changed)


@dataclass(frozen=True)
class Change:
    """What the server does with a request: ``play`` returns its step.

    If the request is ``charged``, the service gets it, and ``play`` its answer.
    """

    play: Callable[[Real], Step]
    charged: bool = False


@dataclass
class ChangedService:
    """The changed service. ``choose`` returns the change of a request, None for the service's own answer.

    ``charged`` has the hundredths of a credit that the service charged for each request.
    """

    base_url: str
    secret: str
    choose: Callable[[Received], Change | None]
    charged: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    address: str = ""

    @contextmanager
    def serving(self) -> Iterator[ChangedService]:
        """Serve in a thread until the block ends."""
        with scripted(choose=self._step) as server:
            self.address = server.address
            yield self

    def _step(self, request: Received) -> Step:
        change = self.choose(request)
        if change is None:
            return self._real(request).step()
        return change.play(self._real(request) if change.charged else Real())

    def _real(self, request: Received) -> Real:
        place = urlsplit(self.base_url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
        try:
            connection.request(request.method, request.target, request.body or None, {"X-ApiKey": self.secret})
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        kept = ("x-credits", "content-type")
        headers = {name.title(): value for name, value in response.getheaders() if name.lower().startswith(kept)}
        asked = f"{request.method} {request.target} {request.body.decode()}"
        cost = parse_credits(headers.get(COST, "0"))
        self.charged[asked] += cost
        self.calls[asked] += bool(cost)
        return Real(response.status, body, headers)
