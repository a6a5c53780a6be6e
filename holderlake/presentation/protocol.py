"""HTTP on uvicorn for a page and a service that may have no reverse proxy.

uvicorn's option ``h11_max_incomplete_event_size`` limits headers. It has none for a connection that sends nothing.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol


class FirstRequestInTime(H11Protocol):
    """Closes a connection whose first request has not arrived after ``seconds``. Use it with ``ws="none"``."""

    seconds: ClassVar[float] = 10.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(self.seconds, self._close_without_request)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def _close_without_request(self) -> None:
        if self.cycle is None:
            self.transport.close()
