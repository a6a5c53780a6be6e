"""The section ``[service]``: the service that ``serve`` runs."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from holderlake.core.setting_types import DatabaseUrl, Section, SigningSecret, distinct
from holderlake.core.units import parse_duration

if TYPE_CHECKING:  # the settings import this module
    from holderlake.core.settings import Settings


def _lifetime_table(table: Mapping[str, str]) -> tuple[tuple[int | None, int], ...]:
    if "older" not in table:
        raise ValueError(
            'the cache lifetime for tokens older than those listed is missing; add a line such as older = "24h"'
        )
    ages = sorted((_seconds(age), _seconds(lifetime)) for age, lifetime in table.items() if age != "older")
    return (*ages, (None, _seconds(table["older"])))


def _seconds(text: str) -> int:
    return int(parse_duration(text).total_seconds())


def _checked_lifetimes(table: dict[str, str]) -> dict[str, str]:
    _lifetime_table(table)
    return table


def _network(text: str) -> str:
    return str(ipaddress.ip_network(text.strip()))


Networks = Annotated[list[Annotated[str, AfterValidator(_network)]], AfterValidator(distinct)]
PublicUrl = Annotated[str, Field(pattern=r"^https?://[^\s?#]+$"), AfterValidator(lambda url: url.rstrip("/"))]


class ServiceSettings(Section):
    """The service that `serve` runs. `database` and `secret` come from the environment only."""

    TABLE: ClassVar = "service"

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on")
    port: int = Field(default=8014, ge=1, le=65_535, description="Port to listen on")
    public_url: PublicUrl | None = Field(
        default=None,
        description="Where callers reach it, if not at host and port",
        examples=["https://holders.example.com"],
    )
    processes: int = Field(default=1, ge=1, le=1_024, description="Processes that answer, all at the same port")
    workers: int = Field(default=16, ge=1, le=1_024, description="Answers computed at a time in each process")
    log: Literal["json", "text", "off"] | None = Field(
        default=None, description="A line a request as json or text, or off; text on a terminal, else json by default"
    )
    database: DatabaseUrl | None = Field(
        default=None, description="URL of a PostgreSQL database for keys and charges, else a file; environment only"
    )
    secret: SigningSecret | None = Field(
        default=None, description="The service's secret, of 16 characters or more; environment only"
    )
    calls_per_minute: int = Field(default=10_000, ge=1, description="Calls a minute from one address to a process")
    trusted_proxies: Networks = Field(default=[], description="Networks whose X-Forwarded headers are believed")
    metrics_from: Networks = Field(default=["127.0.0.0/8", "::1/128"], description="Networks that may read /metrics")
    body_limit: int = Field(default=1 << 20, ge=1 << 10, description="Bytes of a request's body at most")
    answer_seconds: float = Field(default=60.0, gt=0, description="How long a caller waits for an answer at most")
    shutdown_seconds: int = Field(default=30, ge=0, description="How long requests under way may take at the end")
    cache_megabytes: int = Field(default=256, ge=0, description="Memory for answers kept, of each process")
    lifetimes: Annotated[dict[str, str], AfterValidator(_checked_lifetimes)] = Field(
        default={"1h": "30s", "1d": "5m", "30d": "1h", "older": "6h"},
        description="How long an answer about the present is kept, by the age that its token has at most",
    )

    @property
    def cache_bytes(self) -> int:
        return self.cache_megabytes << 20

    @property
    def lifetime_table(self) -> tuple[tuple[int | None, int], ...]:
        """Return the cache lifetimes as pairs (age of the token at most, lifetime) in seconds, by rising age.

        The last pair has None as age and is for all older tokens.
        """
        return _lifetime_table(self.lifetimes)

    @model_validator(mode="after")
    def _keyed(self) -> ServiceSettings:
        if self.database is not None and self.secret is None:
            raise ValueError("a database needs the service's secret too; set HOLDERLAKE_SERVICE__SECRET")
        return self


def accounts_file(settings: Settings) -> Path:
    """Return the file of keys and charges, which is not used if the settings name a database."""
    return settings.home / "service" / "accounts.sqlite"
