"""Endpoints that the API key's plan does not include, known from refusals and stored in the ledger's file.

Runs leave out the tables of these endpoints. Such a plan limit ends after seven days, when the endpoint answers, or
with another key. The key is not stored, only a fingerprint of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from holderlake.contract.times import utc_now
from holderlake.provider.ledger.statements import FORMAT
from holderlake.storage.sqlite import Database

VALID_FOR: Final = timedelta(days=7)
"""Time after which a refused endpoint is requested again, because the plan may have changed."""
_SCHEMA: Final = (
    """
    CREATE TABLE IF NOT EXISTS plan_limits (
        provider TEXT NOT NULL,
        key TEXT NOT NULL,
        endpoint TEXT NOT NULL,
        reason TEXT NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (provider, key, endpoint)
    ) WITHOUT ROWID
    """,
)


@dataclass(frozen=True)
class PlanLimit:
    """An endpoint that the plan does not include, the provider's reason, and the time of the refusal (naive UTC)."""

    endpoint: str
    reason: str
    at: datetime

    @property
    def until(self) -> datetime:
        """The time (naive UTC) at which the limit expires."""
        return self.at + VALID_FOR


class PlanLimits:
    """The plan limits of one provider and API key, in the SQLite file at ``path``."""

    def __init__(self, path: Path, provider_id: str, key: str | None, now: Callable[[], datetime] = utc_now) -> None:
        self._db = Database(path, _SCHEMA, "NORMAL", version=FORMAT)
        self._now = now
        self._whose = (provider_id, _fingerprint(provider_id, key or ""))
        rows = self._db.rows("SELECT endpoint, reason, at FROM plan_limits WHERE provider = ? AND key = ?", self._whose)
        found = (PlanLimit(endpoint, reason, datetime.fromisoformat(at)) for endpoint, reason, at in rows)
        self.limits = {one.endpoint: one for one in found if self._now() < one.until}
        """Plan limits that have not expired, by endpoint."""

    def refused(self, endpoint: str, reason: str) -> None:
        """Store that the plan does not include an endpoint, with the provider's reason."""
        self.limits[endpoint] = PlanLimit(endpoint, reason, self._now())
        with self._db.transaction() as db:
            values = (*self._whose, endpoint, reason, self._now().isoformat())
            db.execute("INSERT OR REPLACE INTO plan_limits VALUES (?, ?, ?, ?, ?)", values)

    def answered(self, endpoint: str) -> None:
        """Remove the plan limit of an endpoint that answered, if there is one."""
        if self.limits.pop(endpoint, None):
            with self._db.transaction() as db:
                sql = "DELETE FROM plan_limits WHERE provider = ? AND key = ? AND endpoint = ?"
                db.execute(sql, (*self._whose, endpoint))

    def close(self) -> None:
        self._db.close()


def _fingerprint(provider_id: str, key: str) -> str:
    """Return a fingerprint that distinguishes keys without revealing them: keys are random, the digest is shortened."""
    return hashlib.sha256(f"{provider_id}\n{key}".encode()).hexdigest()[:16]
