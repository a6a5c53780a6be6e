"""The section ``[lake]``: a bucket in which lake and archive lie, instead of in the home folder."""

from __future__ import annotations

from pydantic import Field

from holderlake.settings.fields import MemoryLimit, Section
from holderlake.units import parse_memory_limit


class LakeSettings(Section):
    """The place of lake and archive. Keys of the storage come from the environment, under the names that the storage
    uses itself, such as AWS_ACCESS_KEY_ID."""

    url: str | None = Field(
        default=None,
        pattern=r"^((s3|gs|az)://[^@\s?]+|file:///[^?]+)$",
        description="Bucket and folder of lake and archive, such as s3://bucket/lake; else both lie in `home`",
    )
    endpoint: str | None = Field(
        default=None, pattern=r"^https?://[^@\s]+$", description="Address of an S3 server other than Amazon's"
    )
    region: str | None = Field(default=None, description="The bucket's region")
    cache: MemoryLimit = Field(
        default="2GB", description="Most bytes of Parquet files of the bucket to keep on this host"
    )

    @property
    def cache_bytes(self) -> int:
        return parse_memory_limit(self.cache)
