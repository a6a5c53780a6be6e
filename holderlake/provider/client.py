"""HTTP client of a provider: one connection pool with its rate limit, time-outs and retries.

``ledger`` keeps the cost of calls, ``archive`` their answers; ``provider`` puts the three together.
The key is sent as a header and appears nowhere else: not in errors, logs or representations.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
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

from holderlake.contract import exact_json
from holderlake.contract.prices import CREDIT, parse_credits
from holderlake.contract.requests import Request
from holderlake.contract.times import utc_now
from holderlake.http.bounded_body import ACCEPT_ENCODING, MEGABYTE, UnusableBody, read_body
from holderlake.provider.backoff import LONGEST_WAIT, Refusals
from holderlake.provider.concurrency import Gate, Pace
from holderlake.provider.errors import (
    Broken,
    BrokenAnswer,
    MalformedAnswer,
    ProviderError,
    RateLimited,
    TransientError,
    Unreachable,
    error_of,
    plain,
)
from holderlake.provider.ledger.entries import MOST_CREDITS

_DEAREST: Final = 100
"""A cost of more than this many times the price table's is not believed."""
_LONGEST_REASON: Final = 300
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
    """A 2xx answer before it is decoded. Credits in hundredths, None where the provider does not name them."""

    raw: bytes = field(repr=False)
    status: int
    fetched_at: datetime
    """Naive UTC."""
    cost_billed: int | None
    credits_remaining: int | None
    dt_update: str | None
    disbelieved: str | None = None
    """Headers about credits that cannot be true, as text; they count as missing."""


@dataclass(frozen=True)
class _Outcome:
    """What came back, of whatever status; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Limits:
    """Bounds of one call. ``rate_window``: seconds of the provider's rate limit; a call that is refused with a 429 is
    repeated for two of them. ``charged_repeats``: repeats of a call that may have been charged. ``answer_bytes`` of an
    answer at most, on the wire and after decompression."""

    rate_window: float = 60.0
    charged_repeats: int = 1
    answer_bytes: int = 256 * MEGABYTE


class ProviderClient:
    """Sends requests to one provider; an asynchronous context manager, for one event loop.

    ``timeout``: seconds for one whole attempt. ``concurrency``: calls under way at a time, at most; their number
    follows the provider's latency (``pace``). ``first_wait``: seconds before the first retry; it doubles.
    Raises ``ValueError`` on a base address or a key that cannot be used.
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
        limits: Limits | None = None,
    ) -> None:
        url = _checked_address(base_url)
        self.base_url = str(url).rstrip("/")
        self.rate_per_minute = rate_per_minute
        self._key = _checked_key(api_key)
        self._timeout = timeout
        self._first_wait = first_wait
        self._limits = limits or Limits()
        self._resume_at = 0.0
        self._answered_at = float("-inf")
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
            headers={
                "User-Agent": _user_agent(),
                "Accept": "application/json",
                "Accept-Encoding": ACCEPT_ENCODING,
            },
            auto_decompress=False,  # aiohttp's own decompression has no limit
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
        """Run ``work``, which makes one ``exchange``, in its turn; repeat it after a ``TransientError``.

        What must happen once an attempt (accounting) belongs into ``work``. A call that may have been charged is
        repeated ``charged_repeats`` times at most, one that a rate limit refuses is repeated for two rate windows.
        """
        broken = 0

        async def in_turn() -> T:
            nonlocal broken
            async with self._gate.turn():
                await self._turn()
                try:
                    return await work()
                except TransientError as error:
                    self.pace.troubled()
                    broken += error.maybe_charged
                    error.is_final = broken > self._limits.charged_repeats
                    raise

        refusals = Refusals(self._limits.rate_window, self._first_wait, self.rate_per_minute)
        while True:
            try:
                return await self._retry(self._wait_before_retry, in_turn)
            except RateLimited as error:
                now = asyncio.get_running_loop().time()
                seconds = refusals.wait(error, now, self._answered_at)
                self._resume_at = max(self._resume_at, now + seconds)  # earlier calls would be refused as well
            await asyncio.sleep(seconds)

    @property
    def is_busy(self) -> bool:
        """Whether work that must not be cut short is under way."""
        return bool(self._under_way)

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
        """Make one call, neither delayed nor repeated. Raises ``ProviderError``."""
        outcome = await self._call(request)
        if isinstance(outcome, BrokenAnswer):
            outcome.cost_billed, outcome.credits_remaining, _ = self._credits(request, outcome.headers)
        if isinstance(outcome, ProviderError):
            raise outcome
        if not 200 <= outcome.status < 300:
            headers = {name: self.redacted(value) for name, value in outcome.headers.items()}
            raise error_of(outcome.status, self.redacted_bytes(outcome.content), headers, request.endpoint)
        self._answered_at = asyncio.get_running_loop().time()
        cost, remaining, disbelieved = self._credits(request, outcome.headers)
        return RawAnswer(
            outcome.content,
            outcome.status,
            utc_now(),
            cost,
            remaining,
            outcome.headers.get("x-dt-update"),
            disbelieved,
        )

    def _credits(self, request: Request, headers: Mapping[str, str]) -> tuple[int | None, int | None, str | None]:
        """What an answer cost and what remains, and as text what cannot be true of that."""
        found: list[int | None] = []
        wrong = []
        most = {"x-credits-cost": _DEAREST * max(request.cost, CREDIT), "x-credits-remaining": MOST_CREDITS}
        for name, limit in most.items():
            text = headers.get(name, "").strip()
            credits = _credits(text)
            if text and (credits is None or credits > limit):
                wrong.append(f"{name}: {plain(self.redacted(text))[:40]}")
                credits = None
            found.append(credits)
        return found[0], found[1], ", ".join(wrong) or None

    def read(self, request: Request, raw: bytes, digest: str | None = None) -> Any:
        """Reads an answer's bytes into ``request.answer``. Raises ``MalformedAnswer`` naming its hash."""
        try:
            return exact_json.decode(raw, request.answer)
        except (exact_json.MalformedAnswer, RecursionError, ArithmeticError) as error:
            # Nesting without end and exponents beyond any decimal are no answers either.
            reason = plain(self.redacted(str(error) or type(error).__name__))
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
            return self._unsent("the client is closed")
        head: _Outcome | None = None
        try:
            with self.pace.timed():
                async with (
                    asyncio.timeout(self._timeout),
                    self._session.request(
                        request.method,
                        self._url(request),
                        data=None if request.body is None else exact_json.encode(request.body),
                        headers=self._headers(request),
                        # Elsewhere than where it was meant for, the key would be given away.
                        allow_redirects=False,
                    ) as answer,
                ):
                    head = _Outcome(answer.status, {name.lower(): value for name, value in answer.headers.items()}, b"")
                    encoding = head.headers.get("content-encoding", "")
                    content = await read_body(answer.content.iter_any(), encoding, self._limits.answer_bytes)
            return replace(head, content=content)
        except aiohttp.ConnectionTimeoutError:
            return self._unsent("no connection in time")
        except TimeoutError:
            seconds = f"no complete answer within {self._timeout:g} s (provider.timeout_seconds)"
            return self._broke(head, "timeout", seconds)
        except UnusableBody as error:
            limit = " (provider.answer_megabytes)" if error.kind == "too_large" else ""
            return self._broke(head, error.kind, f"{error}{limit}")
        except (aiohttp.ClientError, OSError) as error:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return self._unsent(reason) if isinstance(error, _NEVER_SENT) else self._broke(head, "closed", reason)

    def _unsent(self, reason: str) -> Unreachable:
        return Unreachable(self._described("cannot be reached", reason))

    def _broke(self, head: _Outcome | None, how: Broken, reason: str) -> _Outcome | Unreachable:
        """A failure after the request may have arrived; ``head`` is the answer's, where it came."""
        if head is not None and not 200 <= head.status < 300:
            return head  # its status says enough
        error: Unreachable
        if head is None:
            error = Unreachable(self._described("gave no answer", reason))
        else:
            error = BrokenAnswer(self._described("gave no complete answer", reason), None, head.status)
            error.headers = {name: self.redacted(value) for name, value in head.headers.items()}
        error.maybe_charged, error.broken = True, how
        return error

    def _described(self, what: str, reason: str) -> str:
        return plain(self.redacted(f"{self.base_url} {what}: {reason}"))[:_LONGEST_REASON]

    def _url(self, request: Request) -> URL:
        query = urlencode(request.query, quote_via=quote)
        return URL(f"{self.base_url}{request.path}{'?' if query else ''}{query}", encoded=True)

    def _headers(self, request: Request) -> dict[str, str]:
        """Those of one request; the session's own never hold the key."""
        key = self._key.get_secret_value()
        typed = {} if request.body is None else {"Content-Type": "application/json"}
        return typed | ({"X-ApiKey": key} if key else {})

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        while (seconds := self._resume_at - loop.time()) > 0:
            await asyncio.sleep(seconds)
        await self._limiter.acquire()

    def _wait_before_retry(self, error: Exception) -> bool | float:
        """Whether to retry; the seconds to wait where the provider named them, else the usual growing wait."""
        if not isinstance(error, TransientError) or isinstance(error, RateLimited) or error.is_final:
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


def _credits(text: str) -> int | None:
    try:
        return parse_credits(text)
    except ValueError:
        return None
