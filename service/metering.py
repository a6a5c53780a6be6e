"""Who calls, and what the call is charged: authenticated before anything else is read, charged only when answered.

What an answer is made of stands in ``answers``; how credits are kept, in ``keys``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, TypeVar

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from contract import requests, wire
from contract.prices import CREDIT
from contract.times import utc_now
from engine.errors import EngineError
from engine.store import Store
from service.answers import Answer
from service.errors import INTERNAL_ERROR, ServiceError
from service.keys import CreditsExhausted, Key, KeysBusy, KeyStore

_log = logging.getLogger(__name__)
_CHALLENGE: Final = {"WWW-Authenticate": "ApiKey"}
_EXPECTED: Final = (HTTPException, RequestValidationError, EngineError, CreditsExhausted, KeysBusy)

api_key_header: Final = APIKeyHeader(name="X-ApiKey", auto_error=False)
"""Declares the header in the API description; ``MeteredRoute`` is what enforces it."""

R = TypeVar("R", bound=requests.Request)


class MeteredRoute(APIRoute):
    """A route that knows its caller before it reads parameters or body, and never shows how it failed."""

    custom_plan_only: ClassVar[bool] = False

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The framework's handler between our two: authentication before it, the last resort after it."""
        handle = super().get_route_handler()

        async def handle_metered(request: Request) -> Response:
            try:
                request.state.key = await run_in_threadpool(_caller, request)
                if self.custom_plan_only and not request.state.key.custom_plan:
                    raise ServiceError("plan_required", "Address metadata is part of custom plans only")
                return await handle(request)
            except _EXPECTED:
                raise
            except Exception as error:
                _log.exception("%s failed", self.path)
                raise ServiceError("internal_error", INTERNAL_ERROR) from error

        return handle_metered


class CustomPlanRoute(MeteredRoute):
    """A route of custom plans only."""

    custom_plan_only = True


def _caller(request: Request) -> Key:
    secret = request.headers.get("X-ApiKey")
    if not secret:
        raise ServiceError("missing_key", "The request carries no API key in X-ApiKey", _CHALLENGE)
    keys: KeyStore = request.app.state.keys
    key = keys.find(secret)
    if key is None:
        raise ServiceError("invalid_key", "The API key is unknown or revoked", _CHALLENGE)
    return key


@dataclass(frozen=True)
class Meter:
    """Answers a caller's request from the store and charges its key."""

    store: Store
    keys: KeyStore
    key: Key

    def answer(self, request: R, compute: Callable[[Store, R, datetime], Answer]) -> Response:
        """Reserves the request's cost, computes, charges. Whatever fails on the way costs nothing."""
        charge = self.keys.reserve(self.key.id, request.endpoint, request.cost)
        try:
            answer = compute(self.store.snapshot(), request, utc_now())
            body = wire.encode(answer.body)
            balance = self.keys.settle(charge)
        except BaseException:
            self._release(charge)
            raise
        headers = {
            "X-Credits-Cost": _credits(request.cost),
            "X-Credits-Remaining": _credits(balance.remaining),
        }
        if answer.dt_update is not None:
            headers["X-Dt-Update"] = answer.dt_update
        return Response(body, headers=headers, media_type="application/json")

    def _release(self, charge: int) -> None:
        try:
            self.keys.release(charge)
        except KeysBusy:
            _log.warning("charge %d stays reserved until the next start: the key file is busy", charge)


async def _meter(request: Request) -> Meter:
    return Meter(request.app.state.store, request.app.state.keys, request.state.key)


MeterOfCall = Annotated[Meter, Depends(_meter)]


def _credits(hundredths: int) -> str:
    """Credits as a header carries them: two decimals, no separators, which would read as a list."""
    whole, cents = divmod(hundredths, CREDIT)
    return f"{whole}.{cents:02d}"
