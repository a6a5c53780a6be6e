"""Counts calls of clients in the database of API keys, for all processes and hosts of a service.

Clients are stored as keyed hashes (HMAC), so the database contains no IP addresses. ``middleware.rate_limits`` enforces
the limit.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, select

from holderlake.core.storage.state import State, StateConnection, put, unix_now
from holderlake.service.billing.secret import keyed_hash
from holderlake.service.billing.tables import CALLS

_SWEEP_SECONDS: Final = 60.0


class CallCounts:
    """Counts of calls in a database; thread-safe. ``secret`` is the key of the hashes."""

    def __init__(self, database: State, secret: bytes) -> None:
        self._database = database
        self._secret = secret
        self._swept_at = time.monotonic()
        self._turn = threading.Lock()

    def count(self, callers: Sequence[str], seconds: int) -> list[tuple[int, float]]:
        """Count one call for each of ``callers``, each in its own time window of ``seconds``.

        Return a pair for each caller: the number of its calls in its window, and the end of the window in unix seconds.
        """
        if not callers:
            return []
        names = [keyed_hash(self._secret, f"caller {caller}").hex()[:32] for caller in callers]
        calls_by_name = Counter(names)

        def work(db: StateConnection) -> dict[str, tuple[int, float]]:
            now = unix_now(db)
            open_windows = select(CALLS.c.caller, CALLS.c.calls, CALLS.c.ends).where(
                CALLS.c.caller.in_(calls_by_name), CALLS.c.seconds == seconds, CALLS.c.ends > now
            )
            windows = {name: (calls, ends) for name, calls, ends in db.execute(open_windows)}
            for name, calls in calls_by_name.items():
                earlier_calls, ends = windows.get(name, (0, now + seconds))
                windows[name] = earlier_calls + calls, ends
            rows = [
                {"caller": name, "seconds": seconds, "calls": calls, "ends": ends}
                for name, (calls, ends) in windows.items()
            ]
            put(db, CALLS, *rows)
            return windows

        windows = self._database.run(work)
        self._sweep_if_due()
        counts: list[tuple[int, float]] = []
        later_calls = Counter(names)
        for name in names:
            later_calls[name] -= 1
            calls, ends = windows[name]
            counts.append((calls - later_calls[name], ends))
        return counts

    def _sweep_if_due(self) -> None:
        with self._turn:
            if time.monotonic() - self._swept_at < _SWEEP_SECONDS:
                return
            self._swept_at = time.monotonic()
        self.sweep()

    def sweep(self) -> int:
        """Delete the counts whose time window has ended. Return the number of deleted rows."""
        return self._database.run(lambda db: db.execute(delete(CALLS).where(CALLS.c.ends <= unix_now(db))).rowcount)
