"""Counts calls of clients in the database of API keys, for all processes and hosts of a service.

Clients are stored as keyed hashes (HMAC), so the database contains no IP addresses. ``middleware.rate_limits`` enforces
the limit.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from holderlake.core.storage.state import State, StateConnection, given_rows, unix_now
from holderlake.service.billing.secret import keyed_hash

_SWEEP_SECONDS: Final = 60.0


class CallCounts:
    """Counts of calls in a database; thread-safe. ``secret`` is the key of the hashes."""

    def __init__(self, database: State, secret: bytes) -> None:
        self._database = database
        self._secret = secret
        given = given_rows(database.kind, caller="TEXT", seconds="INTEGER", calls="INTEGER")
        self._count: Final = f"""
            INSERT INTO calls (caller, seconds, ends, calls)
            SELECT caller, seconds, ? + seconds, calls FROM {given} AS given WHERE true
            ON CONFLICT (caller, seconds) DO UPDATE SET
                ends = CASE WHEN calls.ends <= ? THEN excluded.ends ELSE calls.ends END,
                calls = CASE WHEN calls.ends <= ? THEN excluded.calls ELSE calls.calls + excluded.calls END
            RETURNING caller, calls, ends
        """
        self._swept_at = time.monotonic()
        self._turn = threading.Lock()

    def count(self, callers: Sequence[str], seconds: int) -> list[tuple[int, float]]:
        """Count one call for each of ``callers``, each in its own time window of ``seconds``.

        Return a pair for each caller: the number of its calls in its window, and the end of the window in unix seconds.
        """
        if not callers:
            return []
        names = [keyed_hash(self._secret, f"caller {caller}").hex()[:32] for caller in callers]
        given = json.dumps([(name, seconds, calls) for name, calls in Counter(names).items()])

        def work(db: StateConnection) -> dict[str, tuple[int, float]]:
            now = unix_now(db)
            rows = db.execute(self._count, (now, given, now, now)).fetchall()
            return {name: (calls, ends) for name, calls, ends in rows}

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
        return self._database.run(lambda db: db.execute("DELETE FROM calls WHERE ends <= ?", (unix_now(db),)).rowcount)
