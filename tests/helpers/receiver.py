"""A receiver of webhooks on loopback, with scripted answers."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Self

from tests.helpers.servers import LoopbackServer


@dataclass(frozen=True)
class Post:
    """A request as it arrived; header names in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


@dataclass
class Receiver:
    """Answers with its statuses in order, and the last one for ever; 0 never answers."""

    statuses: list[int] = field(default_factory=lambda: [204])
    headers: dict[str, str] = field(default_factory=dict)
    posts: list[Post] = field(default_factory=list)
    url: str = ""

    def __enter__(self) -> Self:
        receiver, self._end = self, threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                named = {name.lower(): value for name, value in self.headers.items()}
                receiver.posts.append(Post(self.path, named, body))
                status = receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0]
                if status == 0:
                    receiver._end.wait()
                    return
                self.send_response(status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = LoopbackServer(Handler)
        self.url = f"{self._server.url}/hook/s3cret-path"
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._server.__exit__()
