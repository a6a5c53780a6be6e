"""The credit ledger with a method for each operation, for tests of single calls."""

from __future__ import annotations

from holderlake.core.provider.ledger.entries import Operation, Release, Reservation, Reserve, Settle
from holderlake.core.provider.ledger.ledger import CreditLedger


class OneCallLedger(CreditLedger):
    """Applies one operation at a time and raises its error."""

    def reserve(self, run_id: str, endpoint: str, subject: str | None, cost: int, rate: int | None = None) -> int:
        return self._reserved(Reserve(run_id, endpoint, subject, cost, rate)).entry

    def settle(self, entry: int, cost: int, credits_remaining: int | None = None) -> None:
        self._one(Settle(entry, cost, credits_remaining))

    def release(self, entry: int) -> None:
        self._one(Release(entry))

    def next_turn(self, rate: int) -> float:
        """Return the seconds until a call is allowed, which takes a place in the queue."""
        return self._reserved(Reserve("run", "map", None, 0, rate)).wait

    def _reserved(self, operation: Reserve) -> Reservation:
        result = self._one(operation)
        assert isinstance(result, Reservation)
        return result

    def _one(self, operation: Operation) -> Reservation | None:
        (result,) = self.apply([operation])
        if isinstance(result, Exception):
            raise result
        return result
