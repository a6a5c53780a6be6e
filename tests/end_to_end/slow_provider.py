"""A provider that answers every request after a while, and notes when each arrived and was answered."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.helpers.misbehaving import token_map
from tests.helpers.processes import wait_until
from tests.helpers.servers import LoopbackServer


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


@contextmanager
def slow_provider(seconds: float) -> Iterator[SlowProvider]:
    """Serve on a free port of this machine."""
    provider = SlowProvider(seconds)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.startswith("/v0/tokens/map"):
                self._slowly(token_map())
            elif self.path.startswith("/v0/tokens/holders"):
                data = {"amount": 1, "rank": 1, "share": 0.5}
                self._slowly([{"address": "0x" + "1" * 40, "holder_data": data, "address_details": None}])
            elif self.path.startswith("/v0/chains"):
                self._send(200, [{"id": "eth", "name": "Ethereum"}])
            else:
                self._send(404, {"detail": "no such path"})

        def do_POST(self) -> None:
            keys = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            metadata = {"name": "Moth", "symbol": "MOTH", "is_indexed": True, "img_url": None}
            self._send(200, [{"token_key": key, "metadata": metadata, "stats": None} for key in keys])

        def _slowly(self, body: Any) -> None:
            provider.arrived.append(time.monotonic())
            time.sleep(provider.seconds)
            self._send(200, body)
            provider.answered.append(time.monotonic())

        def _send(self, status: int, body: Any) -> None:
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            """Keep standard error clean."""

    with LoopbackServer(Handler) as server:
        provider.url = server.url
        yield provider
