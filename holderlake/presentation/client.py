"""A client of the ``/v0`` API for scripts and notebooks, with blocking calls and typed answers."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal
from pydantic import SecretStr

from holderlake.core.contract.requests import Request
from holderlake.core.provider.client import ProviderClient


class Client:
    """Client that sends requests to a provider; a context manager. Several threads may share one client.

        from holderlake.core.contract.requests import MapRequest

        with holderlake.Client("http://127.0.0.1:8014", key) as client:
            found = client.get(MapRequest(chain="eth", token_address="0x6ba6f2207e343923ba692e5cae646fb0f566db8d"))

    The client retries refused and unanswered calls as the pipeline does. It has no ledger, no archive and no rate
    limit: every call is charged, and a call that the provider's rate limit refuses is repeated. ``options`` are other
    arguments of ``ProviderClient``, such as ``timeout`` (seconds). Raises ``ValueError`` for an invalid URL or key.
    """

    def __init__(self, url: str, key: str | SecretStr | None = None, **options: Any) -> None:
        self._client = ProviderClient(url, key, **options)
        self._opened = ExitStack()
        self._portal: BlockingPortal | None = None

    def __repr__(self) -> str:
        return f"Client({self._client.base_url!r})"

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._portal = opened.enter_context(start_blocking_portal())  # works where an event loop runs already
            opened.enter_context(self._portal.wrap_async_context_manager(self._client))
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal = None
        self._opened.close()

    def get(self, request: Request) -> Any:
        """Send a request and return its answer in the models of ``contract.models``, with exact amounts.

        Raises ``ProviderError`` if the call fails, and ``ValueError`` outside the ``with`` block.
        """
        if self._portal is None:
            raise ValueError("the client is not open: call get() inside 'with Client(...) as client:'")
        return self._portal.call(self._client.ask, request)
