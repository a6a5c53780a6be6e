"""Counts calls of callers for all services at one database together. What too many calls lead to stands in ``limits``.

Callers are kept as hashes that only the service can make, so that nobody's address lies in the database.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from holderlake.service.billing.secret import keyed_hash
from holderlake.service.database.schema import DIALECTS, Database, Dialect, as_rows, calls

_SWEEP_SECONDS: Final = 60.0


class _Statements:
    def __init__(self, dialect: Dialect) -> None:
        given = dialect.given({"caller": sa.Text(), "seconds": sa.Integer(), "calls": sa.BigInteger()})
        # in the order of the key, in which everyone locks these rows
        rows = sa.select(given.c.caller, given.c.seconds, dialect.unix_now + given.c.seconds, given.c.calls).order_by(
            given.c.caller
        )
        insert = dialect.insert(calls).from_select(["caller", "seconds", "ends", "calls"], rows)
        new = insert.excluded
        is_over = calls.c.ends <= dialect.unix_now
        self.count = insert.on_conflict_do_update(
            index_elements=list(calls.primary_key),
            set_={
                "ends": sa.case((is_over, new.ends), else_=calls.c.ends),
                "calls": sa.case((is_over, new.calls), else_=calls.c.calls + new.calls),
            },
        ).returning(calls.c.caller, calls.c.calls, calls.c.ends)
        # a row that is being counted in is passed over, not waited for
        ended = sa.select(calls.c.caller, calls.c.seconds).where(is_over).with_for_update(skip_locked=True)
        self.sweep = sa.delete(calls).where(sa.tuple_(calls.c.caller, calls.c.seconds).in_(ended))


_STATEMENTS: Final = {name: _Statements(dialect) for name, dialect in DIALECTS.items()}


class Calls:
    """The counts in a database, for many threads."""

    def __init__(self, database: Database, secret: bytes) -> None:
        self._database = database
        self._secret = secret
        self._statements = _STATEMENTS[database.kind]
        self._swept_at = time.monotonic()
        self._turn = threading.Lock()

    def count(self, callers: Sequence[str], seconds: int) -> list[tuple[int, float]]:
        """Adds a call for each caller to its window of so many seconds, which begins at its first call.

        Returns for each the calls in the window, this one included, and the unix time at which the window ends.
        Raises ``KeysBusy``.
        """
        if not callers:
            return []
        names = [keyed_hash(self._secret, f"caller {caller}").hex()[:32] for caller in callers]
        rows = as_rows({"caller": name, "seconds": seconds, "calls": n} for name, n in Counter(names).items())

        def work(connection: sa.Connection) -> list[Any]:
            return list(connection.execute(self._statements.count, rows))

        found = {row.caller: row for row in self._database.write(work)}
        self._sweep_now_and_then()
        counts: list[tuple[int, float]] = []
        later = Counter(names)
        for name in names:
            later[name] -= 1
            counts.append((found[name].calls - later[name], found[name].ends))
        return counts

    def _sweep_now_and_then(self) -> None:
        with self._turn:
            if time.monotonic() - self._swept_at < _SWEEP_SECONDS:
                return
            self._swept_at = time.monotonic()
        self.sweep()

    def sweep(self) -> int:
        """Removes windows that are over, and returns how many there were."""
        return self._database.write(lambda connection: connection.execute(self._statements.sweep).rowcount)
