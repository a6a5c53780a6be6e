"""The section ``[state]``: the database that several hosts share."""

from __future__ import annotations

from pydantic import Field

from holderlake.settings.fields import DatabaseUrl, Section


class StateSettings(Section):
    """The place of ledger, ceilings, rate limit, claims of answers, paused backfills and sent alerts: in `home`, or in
    PostgreSQL for several hosts that share a key. `url` comes from the environment only."""

    url: DatabaseUrl | None = Field(
        default=None,
        description="URL of a PostgreSQL database (14 or later) that the hosts share, else files; environment only",
    )
    schema_name: str = Field(
        default="holderlake",
        pattern=r"^[a-z_][a-z0-9_]{0,62}$",
        description="Schema of that database; hosts with other keys use another one",
    )
    lease_seconds: float = Field(
        default=60.0, ge=1.0, description="A host that is silent for longer loses its open calls to the others"
    )
