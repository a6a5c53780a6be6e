"""Several endpoints as one dependable node: failover, retries, and no endpoint of another chain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import stamina
import stamina.instrumentation
from pydantic import SecretStr

from holderlake.engine.sources.rpc.client.endpoint import Endpoint
from holderlake.engine.sources.rpc.client.errors import BatchTooLong, Misled, Refused, RpcError, Unavailable, WrongChain
from holderlake.engine.sources.rpc.client.messages import Call, Header, block_number, header, number
from holderlake.http.client import Transport

_REST_SECONDS: Final = 5.0
_LONGEST_WAIT: Final = 60.0

T = TypeVar("T")

# By default retries are told by whatever logging library is installed, and structlog's default prints to stdout.
stamina.instrumentation.set_on_retry_hooks([stamina.instrumentation.LoggingOnRetryHook])


class _Unbelievable(Misled):
    """Answers that came in order, and can't be true."""


class Node:
    """Answers of the first endpoint that gives them, the ones named first preferred; an asynchronous context manager.

    ``evm_id``: the chain that all of them must be of, None for that of the first one that answers. ``attempts``: how
    often each endpoint may be tried for one question. Raises ``ValueError`` on an address that can't be one.
    """

    def __init__(
        self,
        urls: Sequence[SecretStr],
        evm_id: int | None = None,
        *,
        timeout: float = 30.0,
        attempts: int = 4,
        batch: int = 50,
        connections: int = 8,
        first_wait: float = 0.5,
        transport: Transport = "aiohttp",
    ) -> None:
        if not urls:
            raise ValueError("no endpoint of a node is named")
        self._endpoints = [
            Endpoint(url, timeout=timeout, batch=batch, connections=connections, transport=transport) for url in urls
        ]
        self._resting: dict[Endpoint, float] = {}
        self._rejected: dict[Endpoint, WrongChain] = {}
        self._evm_id = evm_id
        self.batch = batch
        self._retry = stamina.AsyncRetryingCaller(
            attempts=attempts * len(urls), timeout=None, wait_initial=first_wait, wait_max=30.0, wait_jitter=first_wait
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(endpoint.close() for endpoint in self._endpoints))

    @property
    def requests(self) -> int:
        """HTTP requests sent so far."""
        return sum(endpoint.requests for endpoint in self._endpoints)

    @property
    def rejected(self) -> list[str]:
        """Why endpoints are not asked any more."""
        return [str(error) for error in self._rejected.values()]

    async def evm_id(self) -> int:
        """The chain's id. Raises ``RpcError``."""
        if self._evm_id is None:
            self._evm_id = await self._retry(self._worth_a_retry, self._first_evm_id)
        return self._evm_id

    async def ask(self, calls: Sequence[Call], read: Callable[[list[Any]], T]) -> T:
        """What ``read`` makes of the calls' results; it raises ``Misled`` on results that can't be true, and then
        another endpoint is asked. Raises ``RpcError`` when all of them fail.

        The calls go out in as many requests as the endpoint's batches make them; each is tried again by itself.
        """

        async def attempt() -> T:
            answers: list[Any] = []
            asked: list[Endpoint] = []
            while len(answers) < len(calls):
                answers += await self._retry(self._worth_a_retry, self._some, calls[len(answers) :], asked)
            try:
                return read(answers)
            except Misled as error:
                for endpoint in asked:
                    self._rest(endpoint, error)
                raise _Unbelievable(f"{' and '.join({one.host: None for one in asked})}: {error}") from error

        return await self._retry(self._worth_another_try, attempt)

    async def _some(self, calls: Sequence[Call], asked: list[Endpoint]) -> list[Any]:
        """Results of the first of the calls, as many as one request takes; ``asked`` hears who gave them."""
        evm_id = await self.evm_id()
        refusals: list[Refused] = []
        for endpoint in self._by_preference():
            try:
                answers = await _some_of(endpoint, calls, evm_id)
            except WrongChain as error:
                self._rejected[endpoint] = error
                raise Unavailable(str(error), 0.0) from error
            except (Unavailable, Misled) as error:
                self._rest(endpoint, error)
                raise
            except Refused as error:
                refusals.append(error)  # another one may have what this one has not
            else:
                asked.append(endpoint)
                return answers
        raise refusals[0]

    async def head(self) -> int:
        """The newest block's number."""
        return await self.ask([block_number()], lambda found: _quantity(found[0]))

    async def headers(self, blocks: Sequence[int]) -> dict[int, Header]:
        """The headers of blocks that must be there. Raises ``Misled`` where one is null or another's."""

        def read(found: list[Header | None]) -> dict[int, Header]:
            return {wanted: checked_header(wanted, header) for wanted, header in zip(blocks, found, strict=True)}

        return await self.ask([header(block) for block in blocks], read) if blocks else {}

    async def _first_evm_id(self) -> int:
        endpoint = self._by_preference()[0]
        try:
            return await endpoint.chain_id()
        except (Unavailable, Misled) as error:
            self._rest(endpoint, error)
            raise

    def _by_preference(self) -> list[Endpoint]:
        """The endpoints that are not resting, as they were named, then the others by the end of their rest.

        Raises ``WrongChain`` where all were rejected.
        """
        chosen = [endpoint for endpoint in self._endpoints if endpoint not in self._rejected]
        if not chosen:
            raise WrongChain("; ".join(self.rejected))
        now = asyncio.get_running_loop().time()
        return sorted(chosen, key=lambda endpoint: max(0.0, self._resting.get(endpoint, 0.0) - now))

    def _rest(self, endpoint: Endpoint, error: RpcError) -> None:
        seconds = error.retry_after if isinstance(error, Unavailable) else None
        rest = _REST_SECONDS if seconds is None else seconds
        self._resting[endpoint] = asyncio.get_running_loop().time() + rest

    def _worth_another_try(self, error: Exception) -> bool | float:
        """As ``_worth_a_retry``, of answers only; requests were tried again already."""
        return isinstance(error, _Unbelievable) and self._worth_a_retry(error)

    def _worth_a_retry(self, error: Exception) -> bool | float:
        """Whether to ask again; the seconds to wait where they are known, else the usual growing wait."""
        if not isinstance(error, Unavailable | Misled):
            return False
        if self._someone_is_awake():
            return 0.0
        seconds = error.retry_after if isinstance(error, Unavailable) else None
        if seconds is None:
            return True
        return seconds if seconds <= _LONGEST_WAIT else False

    def _someone_is_awake(self) -> bool:
        now = asyncio.get_running_loop().time()
        left = [endpoint for endpoint in self._endpoints if endpoint not in self._rejected]
        return not left or any(self._resting.get(endpoint, 0.0) <= now for endpoint in left)


async def _some_of(endpoint: Endpoint, calls: Sequence[Call], evm_id: int) -> list[Any]:
    while True:
        try:
            return await endpoint.ask(calls[: max(1, endpoint.batch - 1)], evm_id)
        except BatchTooLong:
            continue  # it is sent fewer now; one call is no batch


def checked_header(wanted: int, found: Header | None) -> Header:
    """The header, if it is that of the block. Raises ``Misled``."""
    if found is None:
        raise Misled(f"block {wanted} is null, though the node has later ones")
    if _quantity(found.number) != wanted:
        raise Misled(f"block {wanted} was asked for, and block {number(found.number)} came")
    return found


def _quantity(text: str) -> int:
    try:
        return number(text)
    except ValueError as error:
        raise Misled(str(error)) from None
