"""A node with several endpoints. It chooses the endpoint for each call, retries, and rejects endpoints of other
chains."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeVar

import stamina
from pydantic import SecretStr

from holderlake.core.http import log_retries
from holderlake.sources.rpc.endpoint import Endpoint
from holderlake.sources.rpc.errors import (
    BatchTooLong,
    Contradiction,
    InvalidAnswer,
    Refused,
    RpcError,
    Unavailable,
    WrongChain,
)
from holderlake.sources.rpc.messages import Call, Header, block, block_number, number

_REST_SECONDS: Final = 5.0
_LONGEST_WAIT: Final = 60.0

T = TypeVar("T")
_PROBES: Final = 16
"""Number of blocks that one batch of requests examines. Seven batches find one block among 100 million."""


log_retries()


class Node:
    """A node with several endpoints. A call goes to the first endpoint; if the endpoint fails, it goes to the next one.

    Use it as an asynchronous context manager. ``evm_id`` is the chain id that all endpoints must have. If it is None,
    the chain id of the first endpoint that answers is used. A call is tried at most ``attempts`` times the number of
    endpoints. Raises ``ValueError`` for an invalid address.
    """

    _kind: ClassVar[type[Endpoint]] = Endpoint

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
    ) -> None:
        if not urls:
            raise ValueError("a node needs at least one endpoint; give its address, for example http://127.0.0.1:8545")
        self._endpoints = [self._kind(url, timeout=timeout, batch=batch, connections=connections) for url in urls]
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
        """The number of HTTP requests sent so far."""
        return sum(endpoint.requests for endpoint in self._endpoints)

    @property
    def hosts(self) -> list[str]:
        """Return the hosts of the endpoints in use."""
        return [endpoint.host for endpoint in self._endpoints if endpoint not in self._rejected]

    @property
    def rejected(self) -> list[str]:
        """The errors of the endpoints that are no longer used, because they have another chain id."""
        return [str(error) for error in self._rejected.values()]

    async def evm_id(self) -> int:
        """Return the chain id of the node. Raises ``RpcError``."""
        if self._evm_id is None:
            self._evm_id = await self._retry(self._worth_a_retry, self._first_evm_id)
        return self._evm_id

    async def ask(self, calls: Sequence[Call], read: Callable[[list[Any]], T]) -> T:
        """Send the calls, and return what ``read`` returns for the list of their results.

        The results are in the order of the calls. If ``read`` raises ``InvalidAnswer``, another endpoint is used. Calls
        are sent in batches, and each batch is retried separately. Raises ``RpcError`` when all endpoints fail.
        """

        async def attempt() -> T:
            answers: list[Any] = []
            endpoints: list[Endpoint] = []
            while len(answers) < len(calls):
                answers += await self._retry(self._worth_a_retry, self._send_batch, calls[len(answers) :], endpoints)
            try:
                return read(answers)
            except InvalidAnswer as error:
                for endpoint in endpoints:
                    self._suspend(endpoint, error)
                raise Contradiction(
                    f"{' and '.join({endpoint.host: None for endpoint in endpoints})}: {error}"
                ) from error

        return await self._retry(self._worth_another_try, attempt)

    async def _send_batch(self, calls: Sequence[Call], endpoints: list[Endpoint]) -> list[Any]:
        """Send the first calls, as many as fit into one request, and return their results.

        The endpoint that answered is appended to the list ``endpoints``.
        """
        evm_id = await self.evm_id()
        refusals: list[Refused] = []
        for endpoint in self._by_preference():
            try:
                answers = await _send_batch_to(endpoint, calls, evm_id)
            except WrongChain as error:
                self._rejected[endpoint] = error
                raise Unavailable(str(error), 0.0) from error
            except (Unavailable, InvalidAnswer) as error:
                self._suspend(endpoint, error)
                raise
            except Refused as error:
                refusals.append(error)  # another endpoint may have these data
            else:
                endpoints.append(endpoint)
                return answers
        raise refusals[0]

    async def head(self) -> int:
        """Return the number of the newest block."""
        return await self.ask([block_number()], lambda answers: _quantity(answers[0]))

    async def headers(self, blocks: Sequence[int]) -> dict[int, Header]:
        """Return the headers of existing blocks by number. Raises ``InvalidAnswer`` if one is missing or wrong."""

        def read(answers: list[Header | None]) -> dict[int, Header]:
            return {block: checked_header(block, header) for block, header in zip(blocks, answers, strict=True)}

        return await self.ask([block(place) for place in blocks], read) if blocks else {}

    async def _first_evm_id(self) -> int:
        endpoint = self._by_preference()[0]
        try:
            return await endpoint.chain_id()
        except (Unavailable, InvalidAnswer) as error:
            self._suspend(endpoint, error)
            raise

    def _by_preference(self) -> list[Endpoint]:
        """Return the endpoints in the order of use: first those that are ready, then those that failed recently.

        Ready endpoints are in the given order, failed ones in the order of the times at which they may be used again.
        Raises ``WrongChain`` if all endpoints were rejected.
        """
        usable = [endpoint for endpoint in self._endpoints if endpoint not in self._rejected]
        if not usable:
            raise WrongChain("; ".join(self.rejected))
        now = asyncio.get_running_loop().time()
        return sorted(usable, key=lambda endpoint: max(0.0, self._resting.get(endpoint, 0.0) - now))

    def _suspend(self, endpoint: Endpoint, error: RpcError) -> None:
        seconds = error.retry_after if isinstance(error, Unavailable) else None
        rest_seconds = _REST_SECONDS if seconds is None else seconds
        self._resting[endpoint] = asyncio.get_running_loop().time() + rest_seconds

    def _worth_another_try(self, error: Exception) -> bool | float:
        """Return whether all calls are sent again after ``error``: False, True, or the seconds to wait before that.

        The result is False if the endpoints do not contradict each other. All other errors were handled by
        ``_worth_a_retry``, for each request.
        """
        return isinstance(error, Contradiction) and self._worth_a_retry(error)

    def _worth_a_retry(self, error: Exception) -> bool | float:
        """Return whether a retry may help after ``error``: False, True, or the number of seconds to wait before the
        retry.

        True means that the caller chooses the time to wait.
        """
        if not isinstance(error, Unavailable | InvalidAnswer):
            return False
        if self._is_endpoint_ready():
            return 0.0
        seconds = error.retry_after if isinstance(error, Unavailable) else None
        if seconds is None:
            return True
        return seconds if seconds <= _LONGEST_WAIT else False

    def _is_endpoint_ready(self) -> bool:
        now = asyncio.get_running_loop().time()
        usable = [endpoint for endpoint in self._endpoints if endpoint not in self._rejected]
        return not usable or any(self._resting.get(endpoint, 0.0) <= now for endpoint in usable)


async def _send_batch_to(endpoint: Endpoint, calls: Sequence[Call], evm_id: int) -> list[Any]:
    while True:
        try:
            return await endpoint.ask(calls[: max(1, endpoint.batch - 1)], evm_id)
        except BatchTooLong:
            continue  # the next batch is smaller; one call is always possible


def checked_header(block: int, header: Header | None) -> Header:
    """Return ``header`` if its number is ``block``. Raise ``InvalidAnswer`` if it is None or of another block."""
    if header is None:
        raise InvalidAnswer(f"the node has no block {block}, although it has later blocks; use another endpoint")
    if _quantity(header.number) != block:
        raise InvalidAnswer(
            f"the node sent block {number(header.number)} instead of block {block}; use another endpoint"
        )
    return header


def _quantity(text: str) -> int:
    try:
        return number(text)
    except ValueError as error:
        raise InvalidAnswer(f"the node sent an invalid number: {error}; use another endpoint") from None


async def first_block_from(node: Node, second: int, head: int) -> int:
    """Return the first block at or after a unix second; ``head + 1`` if all blocks up to ``head`` are earlier.

    Raises ``RpcError``.
    """
    low, high = 0, head + 1  # blocks before low are earlier, blocks from high on are not
    while low < high:
        step = max(1, (high - low) // _PROBES)
        looks = list(range(low, high, step))
        headers = await node.headers(looks)
        earlier = [block for block in looks if number(headers[block].timestamp) < second]
        later = [block for block in looks if number(headers[block].timestamp) >= second]
        low = max(earlier) + 1 if earlier else low
        high = min(later) if later else high
        if not later and step == 1:
            break
    return low
