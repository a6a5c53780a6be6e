"""A provider that answers every request after a while, and notes when each arrived and was answered."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.helpers.misbehaving import CHAINS, Received, Step, answer, error, scripted, token_map
from tests.helpers.processes import wait_until

HOLDERS = [{"address": "0x" + "1" * 40, "holder_data": {"amount": 1, "rank": 1, "share": 0.5}, "address_details": None}]
METADATA = {"name": "Moth", "symbol": "MOTH", "is_indexed": True, "img_url": None}


@dataclass
class SlowProvider:
    """Its address, and the monotonic times of its requests for maps and holders."""

    seconds: float
    url: str = ""
    arrived: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)

    def wait_for(self, requests: int) -> None:
        """Return when this many requests have arrived."""
        wait_until(lambda: len(self.arrived) >= requests)

    def step(self, request: Received) -> Step:
        """Choose the answer to a request."""
        if request.method == "POST":
            keys = json.loads(request.body)
            return answer([{"token_key": key, "metadata": METADATA, "stats": None} for key in keys])
        if request.target.startswith("/v0/chains"):
            return answer(CHAINS)
        if not request.target.startswith(("/v0/tokens/map", "/v0/tokens/holders")):
            return error(404)
        self.arrived.append(time.monotonic())
        time.sleep(self.seconds)
        self.answered.append(time.monotonic())
        return answer(token_map() if "/map" in request.target else HOLDERS)


@contextmanager
def slow_provider(seconds: float) -> Iterator[SlowProvider]:
    """Serve on a free port of this machine."""
    provider = SlowProvider(seconds)
    with scripted(choose=provider.step) as server:
        provider.url = server.address
        yield provider
