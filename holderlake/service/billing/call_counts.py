"""Counts calls of clients in the database of API keys, for all processes and hosts of a service.

Clients are stored as keyed hashes (HMAC), so the database contains no IP addresses. ``middleware.rate_limits`` enforces
the limit.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from holderlake.service.billing.secret import keyed_hash
from holderlake.service.database.connections import Database
from holderlake.service.database.schema import DIALECTS, Dialect, as_rows, calls

_SWEEP_SECONDS: Final = 60.0


class _Statements:
    def __init__(self, dialect: Dialect) -> None:
        call_rows = dialect.parameter_rows({"caller": sa.Text(), "seconds": sa.Integer(), "calls": sa.BigInteger()})
        # ordered by the primary key, so that all transactions lock these rows in the same order
        rows = sa.select(
            call_rows.c.caller, call_rows.c.seconds, dialect.unix_now + call_rows.c.seconds, call_rows.c.calls
        ).order_by(call_rows.c.caller)
        insert = dialect.insert(calls).from_select(["caller", "seconds", "ends", "calls"], rows)
        excluded = insert.excluded
        is_over = calls.c.ends <= dialect.unix_now
        self.count = insert.on_conflict_do_update(
            index_elements=list(calls.primary_key),
            set_={
                "ends": sa.case((is_over, excluded.ends), else_=calls.c.ends),
                "calls": sa.case((is_over, excluded.calls), else_=calls.c.calls + excluded.calls),
            },
        ).returning(calls.c.caller, calls.c.calls, calls.c.ends)
        # skips rows that another transaction is counting
        ended = sa.select(calls.c.caller, calls.c.seconds).where(is_over).with_for_update(skip_locked=True)
        self.sweep = sa.delete(calls).where(sa.tuple_(calls.c.caller, calls.c.seconds).in_(ended))


_STATEMENTS: Final = {name: _Statements(dialect) for name, dialect in DIALECTS.items()}


class CallCounts:
    """Counts of calls in a database; thread-safe. ``secret`` is the key of the hashes."""

    def __init__(self, database: Database, secret: bytes) -> None:
        self._database = database
        self._secret = secret
        self._statements = _STATEMENTS[database.kind]
        self._swept_at = time.monotonic()
        self._turn = threading.Lock()

    def count(self, callers: Sequence[str], seconds: int) -> list[tuple[int, float]]:
        """Count one call for each of ``callers``, each in its own time window of ``seconds``.

        Return a pair for each caller: the number of its calls in its window, and the end of the window in unix seconds.
        """
        if not callers:
            return []
        names = [keyed_hash(self._secret, f"caller {caller}").hex()[:32] for caller in callers]
        rows = as_rows({"caller": name, "seconds": seconds, "calls": n} for name, n in Counter(names).items())

        def work(connection: sa.Connection) -> list[Any]:
            return list(connection.execute(self._statements.count, rows))

        windows = {row.caller: row for row in self._database.write(work)}
        self._sweep_if_due()
        counts: list[tuple[int, float]] = []
        later_calls = Counter(names)
        for name in names:
            later_calls[name] -= 1
            counts.append((windows[name].calls - later_calls[name], windows[name].ends))
        return counts

    def _sweep_if_due(self) -> None:
        with self._turn:
            if time.monotonic() - self._swept_at < _SWEEP_SECONDS:
                return
            self._swept_at = time.monotonic()
        self.sweep()

    def sweep(self) -> int:
        """Delete the counts whose time window has ended. Return the number of deleted rows."""
        return self._database.write(lambda connection: connection.execute(self._statements.sweep).rowcount)
