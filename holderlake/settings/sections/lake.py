"""The sections ``[lake]`` and ``[sql]``: the bucket of lake and archive, Iceberg tables, warnings about queries."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from holderlake.settings.fields import Duration, HttpAddress, MemoryLimit, Section
from holderlake.units import parse_memory_limit


class IcebergSettings(Section):
    """The lake as Apache Iceberg tables. Passwords of a catalogue come from the environment, under the names that its
    driver uses itself, such as PGPASSWORD or PYICEBERG_CATALOG__HOLDERLAKE__TOKEN."""

    publish: bool = Field(default=False, description="Publish after each load of the warehouse")
    catalog: str | None = Field(
        default=None,
        pattern=r"^(https?|sqlite|postgresql\+psycopg)://[^\s]*$",
        description="REST address or database of the catalogue; default: a SQLite file in `home`/iceberg",
    )

    @field_validator("catalog")
    @classmethod
    def _without_password(cls, catalog: str | None) -> str | None:
        if catalog and urlsplit(catalog).password:
            raise ValueError("the address has a password: leave it out, and set PGPASSWORD in the environment")
        return catalog


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
        default="2GB", description="Most bytes of Parquet files of the bucket to keep on this host"
    )

    iceberg: IcebergSettings = IcebergSettings()

    @property
    def cache_bytes(self) -> int:
        return parse_memory_limit(self.cache)


class SqlSettings(Section):
    """Queries of the warehouse. A changed value counts from the next load."""

    as_of_warning: Duration = Field(
        default=timedelta(days=1),
        ge=timedelta(0),
        description="Warn about an answer that is older than the requested instant by more than this",
    )
