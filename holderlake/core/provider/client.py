"""Client of a provider: requests of the contract over HTTP. ``fetcher`` adds ledger, rate limit and archive.

The key is sent as a header and appears nowhere else: not in errors, logs or representations.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, urlencode

import httpx
from pydantic import SecretStr

from holderlake.core.contract import exact_json
from holderlake.core.contract.prices import CREDIT, parse_credits
from holderlake.core.contract.requests import Request
from holderlake.core.contract.times import utc_now
from holderlake.core.http import HttpClient, HttpError, HttpResponse
from holderlake.core.provider import errors
from holderlake.core.provider.api_key import ApiKey
from holderlake.core.provider.attempts import Attempts, CallOptions
from holderlake.core.provider.broken_answers import error_of_body, not_answer_in
from holderlake.core.provider.errors import NotAnswer, ProviderError, plain
from holderlake.core.provider.ledger.entries import MOST_CREDITS
from holderlake.core.provider.limiter import Limiter
from holderlake.core.provider.refusals import error_of

_DEAREST: Final = 100
"""A cost in a header of more than this multiple of the list price is implausible."""
_LONGEST_REASON: Final = 300
_SETTING_OF: Final = {"timeout": " (provider.timeout_seconds)", "too_large": " (provider.answer_megabytes)"}
"""Text that names the setting which limits a call, by the kind of failure when the limit is exceeded."""
T = TypeVar("T")


@dataclass(frozen=True)
class Response:
    """An undecoded 2xx answer, from the provider or from the archive. Amounts are hundredths of a credit.

    ``cost`` is what it cost now, None if no header names it. ``digest`` is its name in the archive and ``sha256`` the
    hash of ``raw``; both are empty until it is archived. To make tables, decode ``raw`` with
    ``holderlake.core.decoding``.
    """

    request: Request
    raw: bytes = field(repr=False)
    fetched_at: datetime
    """Naive UTC."""
    cost: int | None
    digest: str = ""
    sha256: str = ""
    from_archive: bool = False
    credits_remaining: int | None = None
    disbelieved: str | None = None
    """The headers with implausible credits, as text; they count as missing. None if there are none."""
    garbage: NotAnswer | None = None
    """The reason why the body cannot be an answer of the API, although its headers name a charge; else None."""

    @cached_property
    def answer(self) -> Any:
        """The decoded answer, of the type ``request.answer``. Raises ``MalformedAnswer``."""
        try:
            return exact_json.decode(self.raw, self.request.answer)
        except (exact_json.MalformedAnswer, RecursionError, ArithmeticError) as error:
            # Very deep nesting and huge exponents are errors of the answer too.
            reason = plain(str(error) or type(error).__name__)
        raise errors.MalformedAnswer(reason, hashlib.sha256(self.raw).hexdigest(), self.digest or None)


class ProviderClient:
    """Client that sends requests to one provider; an asynchronous context manager, for one event loop.

    ``timeout``: seconds for one complete attempt. ``attempts``: attempts for a failure that may pass, the first one
    included. ``concurrency``: most calls at a time; ``limiter`` adapts their number to the provider's latency.
    ``first_wait``: seconds before the first retry; each further wait doubles. ``rate_per_minute`` is only quoted in
    error messages: the ledger limits the rate. Raises ``ValueError`` for an invalid base address or key.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | SecretStr | None,
        *,
        rate_per_minute: int = 10_000,
        timeout: float = 90.0,
        attempts: int = 4,
        concurrency: int = 256,
        first_wait: float = 0.5,
        options: CallOptions | None = None,
    ) -> None:
        self._url = _checked_address(base_url)
        self.base_url = str(self._url).rstrip("/")
        self.rate_per_minute = rate_per_minute
        self.publishes_rules: bool | None = None
        """Whether an answer named the provider's rules, which only Holderlake's service does. None before an answer."""
        self.limiter = Limiter(concurrency)
        self.key = ApiKey(api_key)
        self._options = options or CallOptions()
        self._attempts = attempts, first_wait, rate_per_minute
        self._connection: dict[str, Any] = {"timeout": timeout, "connections": concurrency}
        self._http: HttpClient | None = None
        self._under_way: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"ProviderClient({self.base_url!r})"

    async def __aenter__(self) -> Self:
        headers = {"User-Agent": _user_agent()}
        self._http = HttpClient(
            self._url, headers=headers, response_bytes=self._options.answer_bytes, **self._connection
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Refuse new requests, wait for the coroutines of ``to_the_end``, and close the connections."""
        http, self._http = self._http, None
        try:
            while self._under_way:
                await asyncio.wait(self._under_way)
        finally:
            if http is not None:
                await http.close()

    async def ask(self, request: Request) -> Any:
        """Send a request and return its answer, decoded as the type ``request.answer``. Raises ``ProviderError``."""
        return (await self.send(request)).answer

    async def send(self, request: Request) -> Response:
        """Send a request, with further attempts, and return its answer undecoded. Raises ``ProviderError``."""
        attempts = self.attempts()
        while True:
            try:
                async with self.limiter.slot():
                    return await self.exchange(request)
            except errors.TransientError as error:
                await attempts.wait(error)

    def attempts(self) -> Attempts:
        """Return the attempts of a new request."""
        return Attempts(self.limiter, self._options, *self._attempts)

    @property
    def is_busy(self) -> bool:
        """True while any coroutine passed to ``to_the_end`` is running."""
        return bool(self._under_way)

    async def to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine until it ends, even if the caller is cancelled or the client is closed.

        A cancelled caller waits for the coroutine, a caller that is cancelled twice does not.
        """
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # otherwise asyncio reports an unread exception after a cancellation

    async def exchange(self, request: Request) -> Response:
        """Send a request once, without waiting or retrying, and return its 2xx answer. Raises ``ProviderError``."""
        if self._http is None:
            raise errors.Unreachable(self._described("cannot be reached", "the client is closed"))
        query = urlencode(request.query, quote_via=quote)
        url = f"{self.base_url}{request.path}{'?' if query else ''}{query}"
        content = None if request.body is None else exact_json.encode(request.body)
        headers = {**self.key.headers, **({"Content-Type": "application/json"} if content else {})}
        try:
            with self.limiter.measured():
                response = await self._http.send(request.method, url, headers=headers, content=content)
        except HttpError as error:
            failure = self._failure(request, error)
        else:
            return self._answer(request, self.key.redacted_response(response))
        raise failure  # outside of the handler: the error that it handles has the unredacted text

    def _failure(self, request: Request, error: HttpError) -> ProviderError:
        """Return the exception for a call that got no complete answer."""
        reason = f"{error}{_SETTING_OF.get(error.cause, '')}"
        if error.cause == "unsent":
            return errors.Unreachable(self._described("cannot be reached", reason))
        if error.response is None:
            failure = errors.Unreachable(self._described("gave no answer", reason))
            failure.maybe_charged = True
            failure.broken = "reset" if error.cause == "closed" else error.cause
            return failure
        response = self.key.redacted_response(error.response)
        if not 200 <= response.status < 300:  # the status of an error says enough without its body
            return error_of(response.status, b"", response.headers, request.endpoint)
        failure = errors.BrokenAnswer(self._described("gave no complete answer", reason), None, response.status)
        failure.cost_billed, failure.credits_remaining, _ = _billed(request, response.headers)
        failure.broken = error.cause
        return failure

    def _answer(self, request: Request, response: HttpResponse) -> Response:
        """Return a complete response as an answer. Raises ``ProviderError`` for any other status or body."""
        if not 200 <= response.status < 300:
            raise error_of(response.status, response.content, response.headers, request.endpoint)
        cost, remaining, disbelieved = _billed(request, response.headers)
        garbage = not_answer_in(response.content, request)
        if garbage is not None and not cost:
            of_endpoint = partial(self._described, endpoint=request.endpoint)
            error = error_of_body(garbage, response, of_endpoint)
            error.cost_billed, error.credits_remaining = cost, remaining
            raise error
        self.limiter.answered_at = asyncio.get_running_loop().time()
        self.publishes_rules = self.publishes_rules or "x-rules" in response.headers
        return Response(
            request,
            response.content,
            utc_now(),
            cost,
            credits_remaining=remaining,
            disbelieved=disbelieved,
            garbage=garbage,
        )

    def _described(self, subject: str, reason: str, endpoint: str = "") -> str:
        of_endpoint = f" of the endpoint {endpoint}" if endpoint else ""
        return plain(self.key.redacted(f"{self.base_url} {subject}{of_endpoint}: {reason}"))[:_LONGEST_REASON]


def _billed(request: Request, headers: Mapping[str, str]) -> tuple[int | None, int | None, str | None]:
    """Return the cost and the balance in an answer's headers (hundredths of a credit), None if missing.

    The third value is a text with the headers that have implausible credits; None if all are plausible.
    """
    amounts: list[int | None] = []
    wrong = []
    limits = {"x-credits-cost": _DEAREST * max(request.cost, CREDIT), "x-credits-remaining": MOST_CREDITS}
    for name, limit in limits.items():
        text = headers.get(name, "").strip()
        try:
            credits = parse_credits(text)
        except ValueError:
            credits = None
        if text and (credits is None or credits > limit):
            wrong.append(f"{name}: {plain(text)[:40]}")
            credits = None
        amounts.append(credits)
    return amounts[0], amounts[1], ", ".join(wrong) or None


def _checked_address(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url.strip().rstrip("/").removesuffix("/v0"))
    except httpx.InvalidURL as error:
        raise ValueError(
            f"invalid base address of the provider: {error}; use for example https://api.example.org"
        ) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(
            "the provider's base address must begin with http:// or https:// and a host name; it has the scheme "
            f"{url.scheme!r} and the host {url.host!r}"
        )
    if url.userinfo or url.query:
        raise ValueError(
            "the provider's base address must not contain a user name, password or query; "
            "give the API key in HOLDERLAKE_API_KEY instead"
        )
    return url


def _user_agent() -> str:
    try:
        return f"holderlake/{version('holderlake')}"
    except PackageNotFoundError:  # run from a bare checkout
        return "holderlake"
