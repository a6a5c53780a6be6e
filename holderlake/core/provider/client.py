"""Client of a provider: requests of the contract over HTTP, with time-outs, a concurrency limit and retries.

``fetcher`` adds the ledger, the rate limit and the archive.
The key is sent as a header and appears nowhere else: not in errors, logs or representations.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property
from html.entities import codepoint2name
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar, get_origin
from urllib.parse import quote, urlencode

import httpx
import msgspec
import stamina
from pydantic import AliasChoices, BaseModel, SecretStr

from holderlake.core.contract import exact_json
from holderlake.core.contract.prices import CREDIT, parse_credits
from holderlake.core.contract.requests import Request
from holderlake.core.contract.times import utc_now
from holderlake.core.http import RESPONSE_BYTES, HttpClient, HttpError, HttpResponse, log_retries
from holderlake.core.provider.backoff import LONGEST_WAIT, Backoff
from holderlake.core.provider.concurrency import AdaptiveLimit, Slots
from holderlake.core.provider.errors import (
    BrokenAnswer,
    MalformedAnswer,
    RateLimited,
    TransientError,
    Unreachable,
    error_of,
    plain,
)
from holderlake.core.provider.ledger.entries import MOST_CREDITS

_DEAREST: Final = 100
"""A cost in a header of more than this multiple of the list price is implausible."""
_LONGEST_REASON: Final = 300
_SHORTEST_KEY: Final = 8
_SETTING_OF: Final = {"timeout": " (provider.timeout_seconds)", "too_large": " (provider.answer_megabytes)"}
"""Text that names the setting which limits a call, by the kind of failure when the limit is exceeded."""

Garbage: TypeAlias = Literal["page", "empty", "cut", "error", "no_rows"]
_GARBAGE: Final[dict[Garbage, str]] = {
    "page": "a web page",
    "empty": "an empty body",
    "cut": "a body that is not JSON",
    "error": "JSON without any field of an answer, for example an error message",
    "no_rows": "an empty list, where each answer has rows",
}
_NOT_JSON: Final = object()
T = TypeVar("T")

log_retries()


@dataclass(frozen=True)
class Response:
    """An undecoded 2xx answer, from the provider or from the archive.

    ``cost`` is what it cost now, in hundredths of a credit; None if no header names it. ``digest`` is its name in the
    archive and ``sha256`` the hash of ``raw``; both are empty until it is archived. The property ``answer`` decodes it;
    to make tables, decode the ``raw`` bytes with ``holderlake.core.decoding``.
    """

    request: Request
    raw: bytes = field(repr=False)
    fetched_at: datetime
    """Naive UTC."""
    cost: int | None
    reader: ProviderClient = field(repr=False, compare=False)
    digest: str = ""
    sha256: str = ""
    from_archive: bool = False
    credits_remaining: int | None = None
    """Hundredths of a credit; None if no header names them."""
    disbelieved: str | None = None
    """The headers with implausible credits, as text; they count as missing. None if there are none."""
    garbage: Garbage | None = None
    """The reason why the body cannot be an answer of the API, although its headers name a charge; else None."""

    @cached_property
    def answer(self) -> Any:
        """The decoded answer, of the type ``request.answer``. Raises ``MalformedAnswer``."""
        return self.reader.read(self.request, self.raw, self.digest or None)


@dataclass(frozen=True)
class CallOptions:
    """Options of all calls. ``rate_window``: period of the provider's rate limit in seconds; a call that is refused
    with HTTP 429 is repeated for two such periods. ``charged_repeats``: most repeats of a call that may have been
    charged. ``answer_bytes``: most bytes of an answer, on the wire and after decompression."""

    rate_window: float = 60.0
    charged_repeats: int = 1
    answer_bytes: int = RESPONSE_BYTES


class ProviderClient:
    """Client that sends requests to one provider; an asynchronous context manager, for one event loop.

    ``timeout``: seconds for one complete attempt. ``attempts``: attempts for a failure that may pass, the first one
    included. ``concurrency``: most calls at a time; ``limit`` adapts their number to the provider's latency.
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
        self._key = _checked_key(api_key)
        self._redact = _redactor(self._key.get_secret_value())
        self._timeout = timeout
        self._first_wait = first_wait
        self._options = options or CallOptions()
        self._resume_at = 0.0
        self._answered_at = float("-inf")
        self.publishes_rules: bool | None = None
        """Whether an answer named the provider's rules, which only Holderlake's service does. None before an answer."""
        self._under_way: set[asyncio.Task[Any]] = set()
        self.limit = AdaptiveLimit(concurrency)
        self._slots = Slots(lambda: self.limit.value)
        self._retry = stamina.AsyncRetryingCaller(
            attempts=attempts, timeout=None, wait_initial=first_wait, wait_max=30.0, wait_jitter=first_wait
        )
        self._connections = concurrency
        self._http: HttpClient | None = None

    def __repr__(self) -> str:
        return f"ProviderClient({self.base_url!r})"

    async def __aenter__(self) -> Self:
        self._http = HttpClient(
            self._url,
            headers={"User-Agent": _user_agent()},
            timeout=self._timeout,
            connections=self._connections,
            response_bytes=self._options.answer_bytes,
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
        """Send a request, with retries, and return its answer undecoded. Raises ``ProviderError``."""
        return await self.retried(lambda: self.exchange(request))

    async def retried(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run ``work``, which makes one call, and return its result. Run it again after a ``TransientError``.

        Waits for the concurrency limit before each attempt.

        A call that may have been charged is repeated at most ``charged_repeats`` times. A call that is refused with
        HTTP 429 is repeated for two periods of the rate limit.
        """
        broken = 0

        async def limited() -> T:
            nonlocal broken
            async with self._slots.slot():
                await self._turn()
                try:
                    return await work()
                except TransientError as error:
                    self.limit.failed()
                    broken += error.maybe_charged
                    error.is_final = broken > self._options.charged_repeats
                    raise

        backoff = Backoff(self._options.rate_window, self._first_wait, self.rate_per_minute)
        while True:
            try:
                return await self._retry(self._wait_before_retry, limited)
            except RateLimited as error:
                now = asyncio.get_running_loop().time()
                seconds = backoff.wait(error, now, self._answered_at)
                self._resume_at = max(self._resume_at, now + seconds)  # earlier calls would be refused as well
            await asyncio.sleep(seconds)

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
        response = await self._send(request)
        if not 200 <= response.status < 300:
            raise error_of(response.status, response.content, response.headers, request.endpoint)
        self._answered_at = asyncio.get_running_loop().time()
        self.publishes_rules = self.publishes_rules or "x-rules" in response.headers
        cost, remaining, disbelieved = self._credits(request, response.headers)
        garbage = no_answer_in(response.content, request)
        if garbage is not None and not cost:
            raise self._no_answer(garbage, response, cost, remaining)
        return Response(
            request,
            response.content,
            utc_now(),
            cost,
            self,
            credits_remaining=remaining,
            disbelieved=disbelieved,
            garbage=garbage,
        )

    def _credits(self, request: Request, headers: Mapping[str, str]) -> tuple[int | None, int | None, str | None]:
        """Return the cost and the balance in an answer's headers (hundredths of a credit), None if missing.

        The third value is a text with the headers that have implausible credits; None if all are plausible.
        """
        amounts: list[int | None] = []
        wrong = []
        limits = {"x-credits-cost": _DEAREST * max(request.cost, CREDIT), "x-credits-remaining": MOST_CREDITS}
        for name, limit in limits.items():
            text = headers.get(name, "").strip()
            credits = _credits(text)
            if text and (credits is None or credits > limit):
                wrong.append(f"{name}: {plain(self.redacted(text))[:40]}")
                credits = None
            amounts.append(credits)
        return amounts[0], amounts[1], ", ".join(wrong) or None

    def read(self, request: Request, raw: bytes, digest: str | None = None) -> Any:
        """Decode an answer's bytes as the type ``request.answer``; ``digest`` is the answer's name in the archive.

        Raises ``MalformedAnswer`` with the SHA-256 of the bytes.
        """
        try:
            return exact_json.decode(raw, request.answer)
        except (exact_json.MalformedAnswer, RecursionError, ArithmeticError) as error:
            # Very deep nesting and huge exponents are errors of the answer too.
            reason = plain(self.redacted(str(error) or type(error).__name__))
        raise MalformedAnswer(reason, hashlib.sha256(raw).hexdigest(), digest)

    def redacted(self, text: str) -> str:
        """Return the text with ``***`` for the API key: providers and proxies may repeat a request's headers."""
        return self._redact(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def _without_key(self, response: HttpResponse) -> HttpResponse:
        """Return the response with ``***`` for the API key, before anything is read of it or written.

        The body of a success keeps a key of fewer than ``_SHORTEST_KEY`` characters, which could be a word of the data.
        """
        headers = {name: self.redacted(value) for name, value in response.headers.items()}
        is_kept = 200 <= response.status < 300 and len(self._key.get_secret_value()) < _SHORTEST_KEY
        content = response.content if is_kept else self._redact(response.content)
        return HttpResponse(response.status, headers, content)

    async def _send(self, request: Request) -> HttpResponse:
        """Send a request once and return the response, of any status. Raises ``Unreachable``."""
        if self._http is None:
            raise Unreachable(self._described("cannot be reached", "the client is closed"))
        query = urlencode(request.query, quote_via=quote)
        url = f"{self.base_url}{request.path}{'?' if query else ''}{query}"
        content = None if request.body is None else exact_json.encode(request.body)
        try:
            with self.limit.measured():
                response = await self._http.send(request.method, url, headers=self._headers(request), content=content)
            return self._without_key(response)
        except HttpError as error:
            if error.response is not None and not 200 <= error.response.status < 300:
                return self._without_key(error.response)  # the status of an error says enough without its body
            failure = self._failure(request, error)
        raise failure

    def _failure(self, request: Request, error: HttpError) -> Unreachable:
        """Return the exception for a call that got no complete answer."""
        reason = f"{error}{_SETTING_OF.get(error.cause, '')}"
        if error.cause == "unsent":
            return Unreachable(self._described("cannot be reached", reason))
        if error.response is None:
            failure = Unreachable(self._described("gave no answer", reason))
        else:
            failure = BrokenAnswer(self._described("gave no complete answer", reason), None, error.response.status)
            failure.cost_billed, failure.credits_remaining, _ = self._credits(request, error.response.headers)
        is_reset = error.cause == "closed" and error.response is None
        failure.maybe_charged, failure.broken = True, "reset" if is_reset else error.cause
        return failure

    def _no_answer(
        self, kind: Garbage, response: HttpResponse, cost: int | None, remaining: int | None
    ) -> BrokenAnswer:
        """Return the exception for a 2xx response without a charge whose body is no answer of the API."""
        start = self.redacted(response.content[:1_000].decode("utf-8", "replace"))[:60]
        error = BrokenAnswer(self._described("gave no answer", f"{_GARBAGE[kind]}: {start!r}"), None, response.status)
        error.broken, error.cost_billed, error.credits_remaining = kind, cost, remaining
        error.body = response.content
        return error

    def _described(self, subject: str, reason: str) -> str:
        return plain(self.redacted(f"{self.base_url} {subject}: {reason}"))[:_LONGEST_REASON]

    def _headers(self, request: Request) -> dict[str, str]:
        """Return the headers of one request, with the API key. The client's default headers never hold the key."""
        key = self._key.get_secret_value()
        typed = {} if request.body is None else {"Content-Type": "application/json"}
        return typed | ({"X-ApiKey": key} if key else {})

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        while (seconds := self._resume_at - loop.time()) > 0:
            await asyncio.sleep(seconds)

    def _wait_before_retry(self, error: Exception) -> bool | float:
        """Return whether to retry after an error, or the seconds to wait first if the provider names them."""
        if not isinstance(error, TransientError) or isinstance(error, RateLimited) or error.is_final:
            return False
        if error.retry_after is None:
            return True
        if error.retry_after > LONGEST_WAIT:
            return False
        return error.retry_after + random.uniform(0, self._first_wait)  # noqa: S311 - spreads the load, no secret


def no_answer_in(raw: bytes, request: Request) -> Garbage | None:
    """Return the reason why a body with a 2xx status cannot be an answer to a request; None if it may be one.

    Such a body comes from another server, says why there is no answer, or was cut on the way. The decoder checks all
    other bodies.
    """
    start = raw[:1_000].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        return "empty"
    if start[:1] == b"<":
        return "page"
    if not _is_json(raw):
        return "cut"
    if get_origin(request.answer) is list:
        is_empty = request.has_rows and start[1:].lstrip()[:1] == b"]"
        return "error" if start[:1] != b"[" else "no_rows" if is_empty else None
    return "error" if _fields_in(raw).isdisjoint(_field_names(request.answer)) else None


def _fields_in(raw: bytes) -> set[str]:
    """Return the names of the fields of a JSON object; empty for other JSON."""
    try:
        return {*msgspec.json.decode(raw, type=dict[str, msgspec.Raw])}
    except (msgspec.DecodeError, RecursionError):
        body = _lenient_json(raw)
        return {*body} if isinstance(body, dict) else set()


@cache
def _field_names(model: type[BaseModel]) -> frozenset[str]:
    """Return the names that the fields of a model may have in an answer."""
    names: set[Any] = {*model.model_fields}
    for field_info in model.model_fields.values():
        alias = field_info.validation_alias
        names |= {*alias.choices} if isinstance(alias, AliasChoices) else {alias}
    return frozenset(names)


def _is_json(raw: bytes) -> bool:
    """Return whether bytes are JSON for some reader: invalid UTF-8, NaN and long numbers are allowed."""
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return _lenient_json(raw) is not _NOT_JSON
    return True


def _lenient_json(raw: bytes) -> Any:
    """Return JSON bytes as plain data, with numbers as text; ``_NOT_JSON`` for other bytes."""
    text = raw.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    try:
        return json.loads(text, parse_int=str, parse_float=str, strict=False)
    except (ValueError, RecursionError):
        return _NOT_JSON


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


def _checked_key(api_key: str | SecretStr | None) -> SecretStr:
    key = api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key or ""
    if not (key.strip().isascii() and (key.strip().isprintable())):
        raise ValueError(
            "the API key contains a character that is not allowed in an HTTP header, such as a line break or an "
            "accented letter: copy the key again"
        )
    return SecretStr(key.strip())


def _redactor(key: str) -> Callable[[bytes], bytes]:
    """Return a function that replaces the key in bytes by ``***``.

    Each character of the key may be escaped once or twice, for an address, JSON or HTML. Only bytes with a character
    that begins an escape are searched for those, because it takes milliseconds for a map.
    """
    if not key:
        return bytes
    plain_key = key.encode()
    escaped_key = re.compile("".join(map(_escapes, key)).encode())

    def redact(raw: bytes) -> bytes:
        raw = raw.replace(plain_key, b"***")
        return escaped_key.sub(b"***", raw) if any(mark in raw for mark in (b"\\", b"%", b"&")) else raw

    return redact


def _escapes(letter: str) -> str:
    """Return a pattern of an ASCII character, plain or escaped. Each alternative begins with a fixed character."""
    code, itself = ord(letter), re.escape(letter)
    entity = rf"#0*{code}|#x0*{code:x}|{codepoint2name.get(code, 'none')}"
    forms = [itself, rf"\\\\{{0,2}}(?:u00{code:02x})", f"%(?:25)?{code:02x}", f"&(?:amp;)?(?:{entity});"]
    if not letter.isalnum():
        forms += [rf"\\\\{{0,2}}{itself}"]
    if letter == " ":
        forms += [r"\+"]
    return f"(?:{forms[0]}|(?i:{'|'.join(forms[1:])}))"


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
