"""The HTTP side of a provider: one connection pool, its rate, time-outs and retries.

What calls cost stands in ``ledger``, what was answered in ``archive``; ``provider`` puts the three together.
The key is sent as a header and appears nowhere else: not in errors, logs or representations.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx
import stamina
import stamina.instrumentation
from aiolimiter import AsyncLimiter
from pydantic import SecretStr

from contract import wire
from contract.prices import parse_credits
from contract.requests import Request
from contract.times import utc_now
from resources.errors import MalformedAnswer, ProviderError, RateLimited, TransientError, Unreachable, error_of

LONGEST_WAIT: Final = 300.0
"""Seconds: a provider that asks for more is not waited for."""
_CONNECT_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 3.0
"""Servers close idle connections after 5 s or more; one that closes as we send leaves us not knowing what we paid."""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_NEVER_SENT: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
)

T = TypeVar("T")

# By default retries are told by whatever logging library is installed, and structlog's default prints to stdout.
stamina.instrumentation.set_on_retry_hooks([stamina.instrumentation.LoggingOnRetryHook])


@dataclass(frozen=True)
class RawAnswer:
    """A 2xx answer before it is read. Credits in hundredths, None where the provider doesn't say."""

    raw: bytes = field(repr=False)
    status: int
    fetched_at: datetime
    """Naive UTC."""
    cost_billed: int | None
    credits_remaining: int | None
    dt_update: str | None


class ProviderClient:
    """Sends requests to one provider; an asynchronous context manager, for one event loop.

    ``timeout``: seconds for one whole attempt. ``first_wait``: seconds before the first retry; it doubles. Raises
    ``ValueError`` on a base address or a key that can't be used.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | SecretStr | None,
        *,
        rate_per_minute: int = 10_000,
        timeout: float = 90.0,
        attempts: int = 5,
        concurrency: int = 8,
        first_wait: float = 0.5,
    ) -> None:
        url = _checked_address(base_url)
        self.base_url = str(url)
        self.rate_per_minute = rate_per_minute
        self._key = _checked_key(api_key)
        self._timeout = timeout
        self._first_wait = first_wait
        self._resume_at = 0.0
        self._closing = False
        self._under_way: set[asyncio.Task[Any]] = set()
        self._slots = asyncio.Semaphore(concurrency)
        self._limiter = _limiter(rate_per_minute)
        self._retry = stamina.AsyncRetryingCaller(
            attempts=attempts, timeout=None, wait_initial=first_wait, wait_max=30.0, wait_jitter=first_wait
        )
        own_host = url.host in _LOOPBACK
        self._http = httpx.AsyncClient(
            base_url=self.base_url,
            auth=_KeyHeader(self._key),
            timeout=httpx.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS)),
            limits=httpx.Limits(max_connections=concurrency, keepalive_expiry=_IDLE_SECONDS),
            headers={"User-Agent": _user_agent(), "Accept": "application/json"},
            # Elsewhere than where it was meant for, the key would be given away: httpx strips no header but its own.
            follow_redirects=False,
            trust_env=not own_host,  # a service of our own host is behind no proxy
            verify=not own_host or url.scheme == "https",  # certificates take long to load, and nothing checks them
        )

    def __repr__(self) -> str:
        return f"ProviderClient({self.base_url!r})"

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sends nothing more, waits for what is under way ``to_the_end``, and closes the connections."""
        self._closing = True
        try:
            while self._under_way:
                await asyncio.wait(self._under_way)
        finally:
            await self._http.__aexit__(kind, error, trace)

    async def ask(self, request: Request) -> Any:
        """The answer, read into ``request.answer``. Raises ``ProviderError``."""
        answer = await self.send(request)
        return self.read(request, answer.raw)

    async def send(self, request: Request) -> RawAnswer:
        """The answer as it came, retried where that can help. Raises ``ProviderError``."""
        return await self.retried(lambda: self.exchange(request))

    async def retried(self, work: Callable[[], Awaitable[T]]) -> T:
        """Runs ``work``, which makes one ``exchange``, when it is its turn; again after a ``TransientError``.

        What must happen once an attempt (accounting) belongs into ``work``.
        """

        async def in_turn() -> T:
            async with self._slots:
                await self._turn()
                try:
                    return await work()
                except RateLimited as error:
                    self._pause(error.retry_after)
                    raise

        return await self._retry(self._wait_before_retry, in_turn)

    async def to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs work that cost money to its end: neither a cancelled caller nor leaving the client cuts it short.

        A second cancellation is not kept waiting.
        """
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._landed)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    def _landed(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, or asyncio would report it as overlooked where the caller was cancelled

    async def exchange(self, request: Request) -> RawAnswer:
        """One call, neither waited for nor retried. Raises ``ProviderError``."""
        outcome = await self._call(request)
        if isinstance(outcome, ProviderError):
            raise outcome
        if not outcome.is_success:
            headers = {name.lower(): self.redacted(value) for name, value in outcome.headers.items()}
            raise error_of(outcome.status_code, self.redacted_bytes(outcome.content), headers)
        return RawAnswer(
            outcome.content,
            outcome.status_code,
            utc_now(),
            _credits(outcome.headers.get("X-Credits-Cost")),
            _credits(outcome.headers.get("X-Credits-Remaining")),
            outcome.headers.get("X-Dt-Update"),
        )

    def read(self, request: Request, raw: bytes, digest: str | None = None) -> Any:
        """Reads an answer's bytes into ``request.answer``. Raises ``MalformedAnswer`` naming its hash."""
        try:
            return wire.decode(raw, request.answer)
        except (wire.MalformedAnswer, RecursionError, ArithmeticError) as error:
            # Nesting without end and exponents beyond any decimal are no answers either.
            reason = self.redacted(str(error) or type(error).__name__)
        raise MalformedAnswer(reason, hashlib.sha256(raw).hexdigest(), digest)

    def redacted(self, text: str) -> str:
        """The text without the key: providers and proxies may repeat what they were sent."""
        key = self._key.get_secret_value()
        return text.replace(key, "***") if key else text

    def redacted_bytes(self, raw: bytes) -> bytes:
        """As ``redacted``."""
        key = self._key.get_secret_value().encode()
        return raw.replace(key, b"***") if key else raw

    async def _call(self, request: Request) -> httpx.Response | Unreachable:
        # The failure is returned, not raised, so that httpx's request, which carries the key, does not hang on it.
        body = request.body
        if self._closing:
            return self._unreachable("the client is closed", maybe_charged=False)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._http.request(
                    request.method,
                    request.path,
                    params=request.query or None,
                    content=None if body is None else wire.encode(body),
                    headers=None if body is None else {"Content-Type": "application/json"},
                )
        except TimeoutError:
            return self._unreachable(f"no whole answer within {self._timeout:g} s", maybe_charged=True)
        except httpx.RequestError as error:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return self._unreachable(reason, maybe_charged=not isinstance(error, _NEVER_SENT))

    def _unreachable(self, reason: str, *, maybe_charged: bool) -> Unreachable:
        error = Unreachable(self.redacted(f"{self.base_url} gave no answer: {reason}"))
        error.maybe_charged = maybe_charged
        return error

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        while (seconds := self._resume_at - loop.time()) > 0:
            await asyncio.sleep(seconds)
        await self._limiter.acquire()

    def _pause(self, seconds: float | None) -> None:
        """Nobody asks before the provider wants to be asked: the others would only use up their attempts."""
        if seconds is not None and seconds <= LONGEST_WAIT:
            self._resume_at = max(self._resume_at, asyncio.get_running_loop().time() + seconds)

    def _wait_before_retry(self, error: Exception) -> bool | float:
        """Whether to retry; the seconds to wait where the provider named them, else the usual growing wait."""
        if not isinstance(error, TransientError):
            return False
        if error.retry_after is None:
            return True
        if error.retry_after > LONGEST_WAIT:
            return False
        return error.retry_after + random.uniform(0, self._first_wait)  # noqa: S311 - spreads load, guards nothing


class _KeyHeader(httpx.Auth):
    """Puts the key on each request as it goes out, so that the client's own headers never hold it."""

    def __init__(self, key: SecretStr) -> None:
        self._key = key

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        self._add(request)
        yield request

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        self._add(request)
        yield request

    def _add(self, request: httpx.Request) -> None:
        if key := self._key.get_secret_value():
            request.headers["X-ApiKey"] = key


def _limiter(rate_per_minute: int) -> AsyncLimiter:
    """A limiter that keeps any minute within the rate: what its bucket lets through at once counts as well."""
    if rate_per_minute > 60:
        return AsyncLimiter(rate_per_minute / 61, 1)
    return AsyncLimiter(1, 60 / rate_per_minute)


def _checked_address(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url.strip().rstrip("/").removesuffix("/v0"))
    except httpx.InvalidURL as error:
        raise ValueError(f"the provider's base address can't be read: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"the provider's base address must begin with http:// or https://, not {url.scheme!r}")
    if url.userinfo or url.query:
        raise ValueError(
            "the provider's base address may hold neither a password nor a query; the key has its own place"
        )
    return url


def _checked_key(api_key: str | SecretStr | None) -> SecretStr:
    key = api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key or ""
    if not (key.strip().isascii() and (key.strip().isprintable())):
        raise ValueError("the API key holds characters that no header can carry")
    return SecretStr(key.strip())


def _user_agent() -> str:
    try:
        return f"holderlake/{version('holderlake')}"
    except PackageNotFoundError:  # run from a bare checkout
        return "holderlake"


def _credits(text: str | None) -> int | None:
    try:
        return None if text is None else parse_credits(text)
    except ValueError:
        return None
