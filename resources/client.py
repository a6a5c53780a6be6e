"""The HTTP side of a provider: one connection pool, its rate, time-outs and retries.

What calls cost stands in ``ledger``, what was answered in ``archive``; ``provider`` puts the three together.
The key is sent as a header and appears nowhere else: not in errors, logs or representations.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import stamina
import stamina.instrumentation
from aiolimiter import AsyncLimiter
from pydantic import SecretStr
from yarl import URL

from contract import wire
from contract.prices import parse_credits
from contract.requests import Request
from contract.times import utc_now
from resources.errors import MalformedAnswer, ProviderError, RateLimited, TransientError, Unreachable, error_of
from resources.pace import Gate, Pace

LONGEST_WAIT: Final = 300.0
"""Seconds: a provider that asks for more is not waited for."""
_CONNECT_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 3.0
"""Servers close idle connections after 5 s or more; one that closes as we send leaves us not knowing what we paid."""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_NEVER_SENT: Final = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
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


@dataclass(frozen=True)
class _Outcome:
    """What came back, of whatever status; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)


class ProviderClient:
    """Sends requests to one provider; an asynchronous context manager, for one event loop.

    ``timeout``: seconds for one whole attempt. ``concurrency``: calls under way at a time, at most; how many there are
    follows the provider's latency (``pace``). ``first_wait``: seconds before the first retry; it doubles. Raises
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
        concurrency: int = 256,
        first_wait: float = 0.5,
    ) -> None:
        url = _checked_address(base_url)
        self.base_url = str(url).rstrip("/")
        self.rate_per_minute = rate_per_minute
        self._key = _checked_key(api_key)
        self._timeout = timeout
        self._first_wait = first_wait
        self._resume_at = 0.0
        self._closing = False
        self._under_way: set[asyncio.Task[Any]] = set()
        self.pace = Pace(concurrency)
        self._gate = Gate(lambda: self.pace.limit)
        self._limiter = _limiter(rate_per_minute)
        self._retry = stamina.AsyncRetryingCaller(
            attempts=attempts, timeout=None, wait_initial=first_wait, wait_max=30.0, wait_jitter=first_wait
        )
        self._own_host = url.host in _LOOPBACK
        self._connections = concurrency
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"ProviderClient({self.base_url!r})"

    async def __aenter__(self) -> Self:
        self._session = self._opened()
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
            if self._session is not None:
                await self._session.close()
                self._session = None

    def _opened(self) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=_IDLE_SECONDS),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(self._timeout, _CONNECT_SECONDS)),
            headers={"User-Agent": _user_agent(), "Accept": "application/json"},
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=not self._own_host,  # a service of our own host is behind no proxy
        )
        # Where a kept connection breaks, it would send a GET again by itself: paid twice, and known to nobody.
        session._retry_connection = False
        return session

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
            async with self._gate.turn():
                await self._turn()
                try:
                    return await work()
                except TransientError as error:
                    self.pace.troubled()
                    if isinstance(error, RateLimited):
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
        if not 200 <= outcome.status < 300:
            headers = {name: self.redacted(value) for name, value in outcome.headers.items()}
            raise error_of(outcome.status, self.redacted_bytes(outcome.content), headers)
        return RawAnswer(
            outcome.content,
            outcome.status,
            utc_now(),
            _credits(outcome.headers.get("x-credits-cost")),
            _credits(outcome.headers.get("x-credits-remaining")),
            outcome.headers.get("x-dt-update"),
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

    async def _call(self, request: Request) -> _Outcome | Unreachable:
        # The failure is returned, not raised, so that the library's request, which carries the key, hangs on nothing.
        if self._closing or self._session is None:
            return self._unreachable("the client is closed", maybe_charged=False)
        try:
            with self.pace.timed():
                async with (
                    asyncio.timeout(self._timeout),
                    self._session.request(
                        request.method,
                        self._url(request),
                        data=None if request.body is None else wire.encode(request.body),
                        headers=self._headers(request),
                        # Elsewhere than where it was meant for, the key would be given away.
                        allow_redirects=False,
                    ) as answer,
                ):
                    content = await answer.read()
            return _Outcome(answer.status, {name.lower(): value for name, value in answer.headers.items()}, content)
        except aiohttp.ConnectionTimeoutError:
            return self._unreachable("no connection in time", maybe_charged=False)
        except TimeoutError:
            return self._unreachable(f"no whole answer within {self._timeout:g} s", maybe_charged=True)
        except (aiohttp.ClientError, OSError) as error:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return self._unreachable(reason, maybe_charged=not isinstance(error, _NEVER_SENT))

    def _url(self, request: Request) -> URL:
        query = urlencode(request.query, quote_via=quote)
        return URL(f"{self.base_url}{request.path}{'?' if query else ''}{query}", encoded=True)

    def _headers(self, request: Request) -> dict[str, str]:
        """Those of one request; the session's own never hold the key."""
        key = self._key.get_secret_value()
        typed = {} if request.body is None else {"Content-Type": "application/json"}
        return typed | ({"X-ApiKey": key} if key else {})

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


def _limiter(rate_per_minute: int) -> AsyncLimiter:
    """A limiter that keeps any minute within the rate: what its bucket lets through at once counts as well."""
    if rate_per_minute > 60:
        return AsyncLimiter(rate_per_minute / 61, 1)
    return AsyncLimiter(1, 60 / rate_per_minute)


def _checked_address(base_url: str) -> URL:
    try:
        url = URL(base_url.strip().rstrip("/").removesuffix("/v0"))
    except ValueError as error:
        raise ValueError(f"the provider's base address can't be read: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"the provider's base address must begin with http:// or https://, not {url.scheme!r}")
    if url.user or url.password or url.query_string:
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
