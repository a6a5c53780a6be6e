"""Who calls, and what the call is charged: authenticated before anything else is read, charged only when answered.

What an answer is made of stands in ``answers``, how credits are kept in ``keys``, what is kept of answers in ``cache``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader
from starlette.exceptions import HTTPException

from holderlake.contract import requests
from holderlake.contract.times import to_unix, utc_now
from holderlake.engine.errors import EngineError
from holderlake.engine.store.store import Store
from holderlake.service.api.answers import Answer
from holderlake.service.api.backend import Backend, BackendOfCall
from holderlake.service.api.bodies import StrictRequest
from holderlake.service.api.known_targets import Asked
from holderlake.service.api.responses import charged, not_modified
from holderlake.service.billing.keys import CreditsExhausted, Demand, Key, KeyEnded, KeysBusy
from holderlake.service.cache import Written, is_known, key_of, lifetime_of
from holderlake.service.errors import INTERNAL_ERROR, ServiceError
from holderlake.service.observability import observation
from holderlake.service.output.formats import Format, format_of, json_bytes, table_bytes

_log = logging.getLogger(__name__)
_CHALLENGE: Final = {"WWW-Authenticate": "ApiKey"}
_EXPECTED: Final = (HTTPException, RequestValidationError, EngineError, CreditsExhausted, KeysBusy)

api_key_header: Final = APIKeyHeader(name="X-ApiKey", auto_error=False)
"""Declares the header in the API description; ``MeteredRoute`` is what enforces it."""

R = TypeVar("R", bound=requests.Request)
Compute = Callable[[Store, R, datetime], Answer]


class MeteredRoute(APIRoute):
    """A route that knows its caller before it reads parameters or body, and never shows how it failed."""

    custom_plan_only: ClassVar[bool] = False

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The framework's handler between our two: authentication before it, the last resort after it."""
        handle = super().get_route_handler()

        async def handle_metered(request: Request) -> Response:
            try:
                request.state.key = key = await _caller(request)
                observation().key, observation().account = key.prefix, key.account
                if self.custom_plan_only and not request.state.key.custom_plan:
                    raise ServiceError("plan_required", "Address metadata is part of custom plans only")
                return await handle(StrictRequest(request.scope, request.receive))
            except _EXPECTED:
                raise
            except KeyEnded as error:
                request.app.state.backend.known_keys.forget()
                raise _unknown_key() from error
            except Exception as error:
                observation().failure = type(error).__name__
                _log.exception("%s failed", self.path)
                raise ServiceError("internal_error", INTERNAL_ERROR) from error

        return handle_metered


class CustomPlanRoute(MeteredRoute):
    """A route of custom plans only."""

    custom_plan_only = True


async def _caller(request: Request) -> Key:
    secret = ", ".join(request.headers.getlist("X-ApiKey"))  # as proxies join them: two keys are none
    if not secret:
        raise ServiceError("missing_key", "The request carries no API key in X-ApiKey", _CHALLENGE)
    backend: Backend = request.app.state.backend
    key = await backend.known_keys.find(secret)
    if key is None:
        raise _unknown_key()
    return key


def _unknown_key() -> ServiceError:
    return ServiceError("invalid_key", "The API key is unknown or revoked", _CHALLENGE)


@dataclass(frozen=True)
class Meter:
    """Answers a caller's request from the store or the cache, and charges its key."""

    backend: Backend
    key: Key
    http: Request

    async def answer(
        self, request: R, compute: Compute[R], *, kept: bool = False, tabular: bool = False, varies: Hashable = None
    ) -> Response:
        """Reserves the request's cost and answers; the charge is settled when the answer has gone out.

        Whatever fails on the way costs nothing, and so does an answer that the caller has already (304). Answers that
        are ``kept`` come from the cache unless a refresh is asked for; ``varies`` is what they depend on beside the
        request. ``tabular`` ones may go out as Arrow or Parquet.
        """
        form = format_of(self.http.headers.get("Accept")) if tabular else Format.JSON
        key = (key_of(request, form, to_unix(utc_now())), varies) if kept else None
        tags = self.http.headers.get("If-None-Match")
        found = None if key is None or _is_refresh(request) else self.backend.cache.find(key)
        if found is not None and is_known(tags, found):
            return not_modified(found)
        charge = await self.backend.cashier.reserve(Demand(self.key.id, request.endpoint, request.cost))
        if found is None and key is not None and not _is_refresh(request):
            found = self.backend.cache.peek(key)  # what another caller asked for may be there by now
        try:
            written = found or await self._compute(request, compute, form, key, tabular)
        except BaseException:
            self.backend.cashier.release(charge)
            raise
        if found is not None:
            self._note("hit")
        if key is not None and varies is None and not _is_refresh(request):
            self._remember(request, form)
        if is_known(tags, written):
            self.backend.cashier.release(charge)
            return not_modified(written)
        return charged(self.backend, written, request, charge)

    async def _compute(
        self, request: R, compute: Compute[R], form: Format, key: Hashable | None, tabular: bool
    ) -> Written:
        backend = self.backend

        def work() -> tuple[Written, int | None]:
            return _written(backend, request, compute, form, tabular)

        same = None if key is None else (key, _is_refresh(request))
        if same is not None:
            self._note("shared" if backend.computing.is_under_way(same) else "miss")

        def keep(found: tuple[Written, int | None]) -> None:
            if key is not None:
                backend.cache.keep(key, *found)

        written, _ = await backend.computing.run(work, self.key.account, same, keep)
        return written

    def _remember(self, request: requests.Request, form: Format) -> None:
        """So that this target need not be read again."""
        scope = self.http.scope
        target = (scope["path"], scope["query_string"], self.http.headers.get("Accept", "").encode("latin-1"))
        self.backend.shortcuts.remember(target, Asked(request, form, scope["route"]))

    def _note(self, outcome: Literal["hit", "miss", "shared"]) -> None:
        observation().cached = outcome == "hit"
        self.backend.metrics.cache(outcome)


def _written(
    backend: Backend, request: R, compute: Compute[R], form: Format, tabular: bool
) -> tuple[Written, int | None]:
    """The answer's bytes, and how long they may be kept; in a computing thread."""
    now = utc_now()
    store = backend.store.snapshot()
    answer = compute(store, request, now)
    as_table = form is not Format.JSON and answer.table is not None
    body = table_bytes(answer.table, form) if as_table else json_bytes(answer.plain())
    written = Written(
        body,
        (form if as_table else Format.JSON).value,
        to_unix(answer.as_of or now),
        store.generation(),
        answer.dt_update,
        (*answer.headers, *((("Vary", "Accept"),) if tabular else ())),
    )
    return written, None if answer.is_past else _lifetime(backend, request, written.as_of)


def _lifetime(backend: Backend, request: requests.Request, as_of: int) -> int:
    if not isinstance(request, requests.TokenRequest):
        return 0
    history = backend.store.history(request.chain, request.token_address)
    age = as_of - history.first_time if history else 0
    return lifetime_of(age, backend.settings.lifetimes)


async def _meter(request: Request, backend: BackendOfCall) -> Meter:
    return Meter(backend, request.state.key, request)


MeterOfCall = Annotated[Meter, Depends(_meter)]


def _is_refresh(request: requests.Request) -> bool:
    return bool(getattr(getattr(request, "options", None), "refresh", False))
