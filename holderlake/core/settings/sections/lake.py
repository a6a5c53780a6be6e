"""The sections ``[lake]``, ``[state]`` and ``[sql]``: places of data, and warnings about queries."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from holderlake.core.setting_types import DatabaseUrl, Duration, HttpAddress, MemoryLimit, Section
from holderlake.core.units import parse_memory_limit


class IcebergSettings(Section):
    """The lake as Apache Iceberg tables. Passwords of a catalogue come from the environment, under the names that its
    driver uses itself, such as PGPASSWORD or PYICEBERG_CATALOG__HOLDERLAKE__TOKEN."""

    publish: bool = Field(default=False, description="Publish after each load of the warehouse")
    catalog: str | None = Field(
        default=None,
        pattern=r"^(https?|sqlite|postgresql\+psycopg)://[^\s]*$",
        description="REST address or database of the catalogue; default: a SQLite file in `home`/iceberg",
    )
    keep: int | None = Field(
        default=None, ge=1, description="Publications to keep; each publication deletes older ones; default: all"
    )
    compact_to: MemoryLimit | None = Field(
        default=None,
        description="Merge small files of past months into files of at most this size, such as 64MB; default: never",
    )

    @field_validator("catalog")
    @classmethod
    def _without_password(cls, catalog: str | None) -> str | None:
        if catalog and urlsplit(catalog).password:
            raise ValueError("the address has a password: leave it out, and set PGPASSWORD in the environment")
        return catalog

    @property
    def compact_bytes(self) -> int | None:
        return None if self.compact_to is None else parse_memory_limit(self.compact_to)


class LakeSettings(Section):
    """The place of lake and archive. Keys of the storage come from the environment, under the names that the storage
    uses itself, such as AWS_ACCESS_KEY_ID."""

    url: str | None = Field(
        default=None,
        pattern=r"^((s3|gs|az)://[^@\s?]+|file:///[^?]+)$",
        description="Bucket and folder of lake and archive, such as s3://bucket/lake; else both lie in `home`",
    )
    endpoint: HttpAddress | None = Field(default=None, description="Address of an S3 server other than Amazon's")
    region: str | None = Field(default=None, description="The bucket's region")
    cache: MemoryLimit = Field(
        default="2GB", description="Maximum bytes of Parquet files of the bucket to keep on this host"
    )

    iceberg: IcebergSettings = IcebergSettings()

    @property
    def cache_bytes(self) -> int:
        return parse_memory_limit(self.cache)


class StateSettings(Section):
    """The place of ledger, ceilings, rate limit, claims of answers and sent alerts: in `home`, or in
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


class SqlSettings(Section):
    """The DuckDB warehouse. A changed value counts from the next load."""

    memory_limit: MemoryLimit = Field(
        default="256MB",
        description="Memory of DuckDB to load, check or export data, such as 2GB; larger sorts use temporary files",
    )
    as_of_warning: Duration = Field(
        default=timedelta(days=1),
        ge=timedelta(0),
        description="Warn about an answer that is older than the requested instant by more than this",
    )
