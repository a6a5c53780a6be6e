"""Takes the credits of requests, many at once: reserved before the work, settled after the answer went out.

Under load the database is asked once for all that came meanwhile, so that billing costs microseconds a request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, cast

from holderlake.service.billing.keys import Charge, Demand, KeyStore
from holderlake.storage.batches import Batches

_log = logging.getLogger(__name__)
_RETRY_SECONDS: Final = 1.0
_LAST_TRIES: Final = 3


@dataclass(frozen=True)
class _Settle:
    charge: str


@dataclass(frozen=True)
class _Release:
    charge: str


class Cashier:
    """Reserves, settles and releases for one event loop, by one thread.

    ``before`` is called in that thread before each batch: whatever it looks at, a caller whose credits are reserved
    sees it as it was after its request came.
    """

    def __init__(self, keys: KeyStore, before: Callable[[], object]) -> None:
        self._keys = keys
        self._before = before
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self._batches: Batches[Demand | _Settle | _Release, Charge | None] = Batches(self._carry_out, self._thread)
        self._owed: set[_Settle | _Release] = set()

    async def reserve(self, demand: Demand) -> Charge:
        """Sets a cost aside. Raises ``CreditsExhausted``, ``KeyEnded``, or ``KeysBusy`` when nothing was set aside."""
        future = self._batches.submit(demand)
        try:
            return cast(Charge, await asyncio.shield(future))
        except asyncio.CancelledError:
            future.add_done_callback(self._give_back)
            raise

    def settle(self, charge: Charge) -> None:
        """Bills an answer that went out; returns at once."""
        self._note(_Settle(charge.id))

    def release(self, charge: Charge) -> None:
        """Gives back what was set aside for an answer that did not come; returns at once."""
        self._note(_Release(charge.id))

    async def close(self) -> None:
        """Returns when everything is booked. What can't be booked now is released when this process has ended."""
        for _ in range(_LAST_TRIES):
            await self._batches.flush()
            if not self._owed:
                break
            await asyncio.sleep(_RETRY_SECONDS)
        if self._owed:
            _log.error("%d charges could not be booked before the end", len(self._owed))
        self._thread.shutdown()  # idle by now; a thread for it can't be had any more when the interpreter ends

    def _note(self, booking: _Settle | _Release) -> None:
        self._owed.add(booking)
        self._book(booking)

    def _book(self, booking: _Settle | _Release) -> None:
        def booked(future: asyncio.Future[Charge | None]) -> None:
            if future.cancelled() or future.exception() is None:
                self._owed.discard(booking)
            else:  # the answer is out: it is tried for as long as the service runs
                _log.warning("a charge could not be booked; trying again: %s", type(future.exception()).__name__)
                future.get_loop().call_later(_RETRY_SECONDS, self._book, booking)

        self._batches.submit(booking).add_done_callback(booked)

    def _give_back(self, future: asyncio.Future[Charge | None]) -> None:
        """The caller is gone, and what was just set aside for it is not needed."""
        if not future.cancelled() and future.exception() is None:
            charge = future.result()
            if charge is not None:
                self.release(charge)

    def _carry_out(self, items: Sequence[Demand | _Settle | _Release]) -> Sequence[Charge | Exception | None]:
        self._before()
        settled = [item.charge for item in items if isinstance(item, _Settle)]
        released = [item.charge for item in items if isinstance(item, _Release)]
        demands = [item for item in items if isinstance(item, Demand)]
        results = iter(self._keys.carry_out(settled, released, demands))
        return [next(results) if isinstance(item, Demand) else None for item in items]
