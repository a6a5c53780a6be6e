"""Answers on their way out: their headers, what they cost, and the charge that is settled when they have gone."""

from __future__ import annotations

from typing import Final

from fastapi import Response
from starlette.types import Receive, Scope, Send

from holderlake.contract import requests
from holderlake.contract.prices import CREDIT
from holderlake.service.api.backend import Backend
from holderlake.service.billing.keys import Charge
from holderlake.service.cache import Written
from holderlake.service.observability import observation

_FREE: Final = (b"x-credits-cost", b"0.00")


def not_modified(written: Written) -> Response:
    """Tells the caller that it has this answer already; that costs nothing."""
    response = Response(status_code=304)
    response.raw_headers = [*written.raw_headers, _FREE]
    return response


def charged(backend: Backend, written: Written, request: requests.Request, charge: Charge) -> Response:
    """An answer whose charge is settled when it has gone out whole, and given back where it could not."""
    return _Charged(backend, written, request, charge)


class _Charged(Response):
    """Made of the parts that are there already, for most of these answers are the same again and again."""

    def __init__(self, backend: Backend, written: Written, request: requests.Request, charge: Charge) -> None:
        self.status_code = 200
        self.background = None
        self.body = written.body
        self.raw_headers = [
            *written.raw_headers,
            (b"content-type", written.media_type.encode()),
            (b"content-length", str(len(written.body)).encode()),
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
            self._backend.cashier.release(self._charge)
            raise
        self._backend.cashier.settle(self._charge)
        observation().cost = self._request.cost
        self._backend.metrics.charged(self._request.endpoint, self._request.cost)


def _credits(hundredths: int) -> bytes:
    """Credits as a header carries them: two decimals, no separators, which would read as a list."""
    whole, cents = divmod(hundredths, CREDIT)
    return b"%d.%02d" % (whole, cents)
