"""Authenticates, charges and answers requests. All routes that cost credits use this module.

Answers are computed by ``answers`` and ``extra_answers``, cached by ``cache``, and charged by ``billing``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar, cast

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from holderlake.core.contract import exact_json, requests
from holderlake.core.contract.prices import CREDIT
from holderlake.core.contract.times import to_unix, utc_now
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.engine.errors import EngineError
from holderlake.engine.store.store import Store
from holderlake.service.api.answers import Answer
from holderlake.service.api.backend import Backend
from holderlake.service.api.parameters import StrictRequest
from holderlake.service.billing.keys import Charge, ChargeRequest, CreditsExhausted, Key, KeyEnded
from holderlake.service.cache import EncodedAnswer, key_of, lifetime_of, matches
from holderlake.service.errors import INTERNAL_ERROR, ServiceError
from holderlake.service.middleware.body_limits import read_body
from holderlake.service.observability import observation
from holderlake.service.output.formats import Format, format_of, table_bytes

_log = logging.getLogger(__name__)
_CHALLENGE: Final = {"WWW-Authenticate": "ApiKey"}
_EXPECTED: Final = (HTTPException, RequestValidationError, EngineError, CreditsExhausted, DatabaseError)

api_key_header: Final = APIKeyHeader(name="X-ApiKey", auto_error=False)
"""The header ``X-ApiKey``, for the OpenAPI document only. ``MeteredRoute`` reads the header and checks the key."""

R = TypeVar("R", bound=requests.Request)
Compute = Callable[[Store, R, datetime], Answer]


class MeteredRoute(APIRoute):
    """A route that authenticates the caller before it reads parameters or body.

    Any unexpected error is logged. The caller gets a 500 without the error's message.
    """

    custom_plan_only: ClassVar[bool] = False

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that authenticates a request and then calls FastAPI's handler."""
        handle = super().get_route_handler()

        async def handle_metered(request: Request) -> Response:
            async def respond(meter: Meter) -> Response:
                request.state.meter = meter
                if request.method != "POST":
                    return await handle(request)
                body = await read_body(request, meter.backend.settings.body_limit)
                return await handle(StrictRequest(request.scope, body))

            return await self.serve(request, respond)

        return handle_metered

    async def serve(self, request: Request, respond: Callable[[Meter], Coroutine[Any, Any, Response]]) -> Response:
        """Authenticate a request, then call ``respond`` with a ``Meter`` for the caller's key, and return its response.

        Raises ``ServiceError`` for a missing or invalid key and for an unexpected error in ``respond``.
        """
        backend: Backend = request.app.state.backend
        try:
            key = await _authenticate(backend, request)
            observation().key, observation().account = key.prefix, key.account
            if self.custom_plan_only and not key.custom_plan:
                raise ServiceError(
                    "plan_required", "Address metadata needs a custom plan: ask the operator of this service for one"
                )
            return await respond(Meter(backend, key, request))
        except _EXPECTED:
            raise
        except KeyEnded as error:
            backend.key_cache.clear()
            raise _invalid_key() from error
        except Exception as error:
            observation().failure = type(error).__name__
            _log.exception("%s failed", self.path)
            raise ServiceError("internal_error", INTERNAL_ERROR) from error


class CustomPlanRoute(MeteredRoute):
    """A metered route that refuses keys whose account has no custom plan."""

    custom_plan_only = True


async def _authenticate(backend: Backend, request: Request) -> Key:
    secret = ", ".join(request.headers.getlist("X-ApiKey"))  # joined as proxies do: two keys are an invalid key
    if not secret:
        raise ServiceError("missing_key", "The request carries no API key: send one in the header X-ApiKey", _CHALLENGE)
    key = await backend.key_cache.find(secret)
    if key is None:
        raise _invalid_key()
    return key


def _invalid_key() -> ServiceError:
    return ServiceError(
        "invalid_key", "The API key is unknown or revoked: send an active key in the header X-ApiKey", _CHALLENGE
    )


class ParsedRequestsMiddleware:
    """Middleware that serves a repeated cacheable GET without routing and parsing it again.

    A request with the same path and query has the same route and arguments, so the first one stores them in
    ``Backend.parsed_requests``. Authentication, price, cache and billing use the same code as for a new request.
    ``handlers`` are the app's exception handlers.
    """

    def __init__(self, app: ASGIApp, backend: Backend, handlers: Mapping[Any, Any]) -> None:
        self._app = app
        self._backend = backend
        self._serve = ExceptionMiddleware(self._serve_parsed, handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_parsed = scope["type"] == "http" and _target(scope) in self._backend.parsed_requests
        await (self._serve if is_parsed else self._app)(scope, receive, send)

    async def _serve_parsed(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"], arguments = self._backend.parsed_requests[_target(scope)]
        response = await scope["route"].serve(Request(scope, receive), lambda meter: meter.answer(*arguments))
        await response(scope, receive, send)


def _target(scope: Scope) -> tuple[str, str, bytes]:
    return scope["method"], scope["path"], scope["query_string"]


@dataclass(frozen=True)
class Meter:
    """Answers one HTTP request from the cache or the store, and charges the account of the caller's key."""

    backend: Backend
    key: Key
    http: Request

    async def answer(
        self,
        request: R,
        compute: Compute[R],
        cacheable: bool = False,
        tabular: bool = False,
        vary_on: Hashable = None,
    ) -> Response:
        """Reserve the request's cost, answer from the cache or by ``compute``, and charge the cost after sending.

        An error or a 304 costs nothing. The cache is used only if ``cacheable`` is true; a request with the option
        ``refresh`` is computed again and then cached. ``vary_on`` is any further value on which the answer depends; it
        becomes part of the cache key. If ``tabular`` is true, the caller may request Arrow or Parquet.
        """
        backend = self.backend
        form = format_of(self.http.headers.get("Accept")) if tabular else Format.JSON
        key = (key_of(request, form, to_unix(utc_now())), vary_on) if cacheable else None
        if key is not None and vary_on is None and self.http.method == "GET":
            arguments = request, compute, cacheable, tabular
            backend.keep_parsed(_target(self.http.scope), (self.http.scope["route"], arguments))
        lookup = None if _is_refresh(request) else key
        tags = self.http.headers.get("If-None-Match")
        cached = None if lookup is None or tags is None else backend.cache.find(lookup)
        if cached is not None and matches(tags, cached):
            observation().cached = True
            return _not_modified(cached)
        charge = await backend.billing.reserve(ChargeRequest(self.key.id, request.endpoint, request.cost))
        try:
            # Reserving has refreshed the store's generation in the billing thread.
            answer = None if lookup is None else backend.cache.find_known(lookup)
            if answer is not None:
                self._count("hit")
            else:
                answer = await self._compute(request, compute, form, key, tabular)
        except BaseException:
            backend.billing.release(charge)
            raise
        if matches(tags, answer):
            backend.billing.release(charge)
            return _not_modified(answer)
        return _ChargedResponse(backend, answer, request, charge)

    async def _compute(
        self, request: R, compute: Compute[R], form: Format, key: Hashable | None, tabular: bool
    ) -> EncodedAnswer:
        backend = self.backend

        def work() -> tuple[EncodedAnswer, int | None]:
            return _encode(backend, request, compute, form, tabular)

        flight = None if key is None else (key, _is_refresh(request))
        if flight is not None:
            self._count("shared" if backend.workers.is_running(flight) else "miss")

        def keep(result: tuple[EncodedAnswer, int | None]) -> None:
            if key is not None:
                backend.cache.keep(key, *result)

        answer, _ = await backend.workers.run(work, self.key.account, flight, keep)
        return answer

    def _count(self, outcome: Literal["hit", "miss", "shared"]) -> None:
        observation().cached = outcome == "hit"
        self.backend.metrics.cache(outcome)


def _encode(
    backend: Backend, request: R, compute: Compute[R], form: Format, tabular: bool
) -> tuple[EncodedAnswer, int | None]:
    """Compute and encode an answer in a worker thread. Return it and its cache lifetime in seconds.

    The lifetime is None for an answer about the past, which does not expire.
    """
    now = utc_now()
    store = backend.store.snapshot()
    answer = compute(store, request, now)
    as_table = form is not Format.JSON and answer.table is not None
    body = table_bytes(answer.table, form) if as_table else exact_json.encode(answer.plain())
    encoded = EncodedAnswer(
        body,
        (form if as_table else Format.JSON).value,
        to_unix(answer.as_of or now),
        store.generation(),
        answer.dt_update,
        (*answer.headers, *((("Vary", "Accept"),) if tabular else ())),
    )
    return encoded, None if answer.is_past else _lifetime(backend, request, encoded.as_of)


def _lifetime(backend: Backend, request: requests.Request, as_of: int) -> int:
    if not isinstance(request, requests.TokenRequest):
        return 0
    history = backend.store.history(request.chain, request.token_address)
    age = as_of - history.first_time if history else 0
    return lifetime_of(age, backend.settings.lifetime_table)


def _is_refresh(request: requests.Request) -> bool:
    return bool(getattr(getattr(request, "options", None), "refresh", False))


def _not_modified(answer: EncodedAnswer) -> Response:
    """Return a 304 with the answer's headers and a cost of zero."""
    response = Response(status_code=304)
    response.raw_headers = [*answer.raw_headers, (b"x-credits-cost", b"0.00")]
    return response


class _ChargedResponse(Response):
    """Response that settles its charge after it is sent, and releases the charge if the service cannot send it.

    A caller that has hung up is charged, because the answer is computed: otherwise anyone could compute for nothing.
    """

    def __init__(self, backend: Backend, answer: EncodedAnswer, request: requests.Request, charge: Charge) -> None:
        # Without the base class's constructor: it would encode the same headers for each request.
        self.status_code = 200
        self.background = None
        self.body = answer.body
        self.raw_headers = [
            *answer.raw_headers,
            (b"content-type", answer.media_type.encode()),
            (b"content-length", str(len(answer.body)).encode()),
            (b"x-credits-cost", _credits(request.cost)),
            (b"x-credits-remaining", _credits(charge.remaining)),
        ]
        self._backend = backend
        self._request = request
        self._charge = charge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": self.body})
        except BaseException:
            self._backend.billing.release(self._charge)
            raise
        self._backend.billing.settle(self._charge)
        observation().cost = self._request.cost
        self._backend.metrics.charged(self._request.endpoint, self._request.cost)


def _credits(hundredths: int) -> bytes:
    """Return hundredths of a credit as the text of a header in credits, for example ``1234.50``."""
    credits, cents = divmod(hundredths, CREDIT)
    return b"%d.%02d" % (credits, cents)


async def _meter(request: Request) -> Meter:
    return cast(Meter, request.state.meter)


MeterDependency = Annotated[Meter, Depends(_meter)]
