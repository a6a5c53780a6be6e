"""Endpoints that the API key's plan does not include, known from refusals and stored with the ledger.

Runs leave out the tables of these endpoints. Such a plan limit ends after seven days, when the endpoint answers, or
with another key. The key is not stored, only a fingerprint of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Column, MetaData, Table, Text, delete, select

from holderlake.core.contract.times import utc_now
from holderlake.core.provider.ledger.statements import FORMAT
from holderlake.core.storage.state import Where, open_state, put

VALID_FOR: Final = timedelta(days=7)
"""Time after which a refused endpoint is requested again, because the plan may have changed."""
_TABLES: Final = MetaData()
_LIMITS: Final = Table(
    "plan_limits",
    _TABLES,
    *(Column(name, Text, primary_key=True) for name in ("provider", "key", "endpoint")),
    *(Column(name, Text, nullable=False) for name in ("reason", "at")),
    sqlite_with_rowid=False,
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
    """The plan limits of one provider and API key, in a SQLite file or in PostgreSQL."""

    def __init__(
        self, location: Where, provider_id: str, key: str | None, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._db = open_state(location, _TABLES, "NORMAL", version=FORMAT)
        self._now = now
        fingerprint = hashlib.sha256(f"{provider_id}\n{key or ''}".encode()).hexdigest()[:16]
        self._account = {"provider": provider_id, "key": fingerprint}
        rows = self._db.rows(select(_LIMITS.c.endpoint, _LIMITS.c.reason, _LIMITS.c.at).filter_by(**self._account))
        plan_limits = (PlanLimit(endpoint, reason, datetime.fromisoformat(at)) for endpoint, reason, at in rows)
        self.limits = {limit.endpoint: limit for limit in plan_limits if self._now() < limit.until}
        """Plan limits that have not expired, by endpoint."""

    def refused(self, endpoint: str, reason: str) -> None:
        """Store that the plan does not include an endpoint, with the provider's reason."""
        self.limits[endpoint] = PlanLimit(endpoint, reason, self._now())
        row = self._account | {"endpoint": endpoint, "reason": reason, "at": self._now().isoformat()}
        self._db.run(lambda db: put(db, _LIMITS, row))

    def remove(self, endpoint: str) -> None:
        """Remove the plan limit of an endpoint that answered, if there is one."""
        if self.limits.pop(endpoint, None):
            self._db.run(lambda db: db.execute(delete(_LIMITS).filter_by(**self._account, endpoint=endpoint)))

    def close(self) -> None:
        self._db.close()
