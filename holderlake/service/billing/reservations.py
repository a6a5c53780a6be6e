"""Reserves, settles and releases the credits of requests in batches, in one thread.

Under load, one database transaction serves all requests that arrived during the previous transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, cast

from holderlake.core.storage.batches import Batches
from holderlake.service.billing.keys import Charge, ChargeRequest, KeyStore

_log = logging.getLogger(__name__)
_RETRY_SECONDS: Final = 1.0
_LAST_TRIES: Final = 3


@dataclass(frozen=True)
class _Settle:
    charge: str


@dataclass(frozen=True)
class _Release:
    charge: str


class Billing:
    """Reserves, settles and releases credits for the requests of one event loop.

    ``before_batch`` is a function that the billing thread calls before each batch of reservations.
    """

    def __init__(self, keys: KeyStore, before_batch: Callable[[], object]) -> None:
        self._keys = keys
        self._before_batch = before_batch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="billing")
        self._batches: Batches[ChargeRequest | _Settle | _Release, Charge | None] = Batches(self._book, self._thread)
        self._unbooked: set[_Settle | _Release] = set()

    async def reserve(self, request: ChargeRequest) -> Charge:
        """Reserve the cost of a request.

        Raises ``CreditsExhausted``, ``KeyEnded`` or ``DatabaseError``; then nothing is reserved.
        """
        future = self._batches.submit(request)
        try:
            return cast(Charge, await asyncio.shield(future))
        except asyncio.CancelledError:
            future.add_done_callback(self._release_late)
            raise

    def settle(self, charge: Charge) -> None:
        """Charge the reserved cost, after the answer was sent. Returns at once; retries in the background."""
        self._submit(_Settle(charge.id))

    def release(self, charge: Charge) -> None:
        """Release the reserved cost, if no answer was sent. Returns at once; retries in the background."""
        self._submit(_Release(charge.id))

    async def close(self) -> None:
        """Wait until all charges and releases are in the database. Give up after three failed tries.

        Later reservations, of any process, release those that remained open.
        """
        for _ in range(_LAST_TRIES):
            await self._batches.flush()
            if not self._unbooked:
                break
            await asyncio.sleep(_RETRY_SECONDS)
        if self._unbooked:
            _log.error("%d charges could not be booked before the end", len(self._unbooked))
        self._thread.shutdown()  # idle now; the interpreter's own end would be too late

    def _submit(self, booking: _Settle | _Release) -> None:
        def booked(future: asyncio.Future[Charge | None]) -> None:
            if future.cancelled() or future.exception() is None:
                self._unbooked.discard(booking)
            else:  # the answer is sent, so retry as long as the service runs
                _log.warning("a charge could not be booked; trying again: %s", type(future.exception()).__name__)
                future.get_loop().call_later(_RETRY_SECONDS, self._submit, booking)

        self._unbooked.add(booking)
        self._batches.submit(booking).add_done_callback(booked)

    def _release_late(self, future: asyncio.Future[Charge | None]) -> None:
        """Release a reservation that was made after its caller had been cancelled."""
        if not future.cancelled() and future.exception() is None:
            charge = future.result()
            if charge is not None:
                self.release(charge)

    def _book(self, items: Sequence[ChargeRequest | _Settle | _Release]) -> Sequence[Charge | Exception | None]:
        self._before_batch()
        settled = [item.charge for item in items if isinstance(item, _Settle)]
        released = [item.charge for item in items if isinstance(item, _Release)]
        requests = [item for item in items if isinstance(item, ChargeRequest)]
        results = iter(self._keys.book(settled, released, requests))
        return [next(results) if isinstance(item, ChargeRequest) else None for item in items]
