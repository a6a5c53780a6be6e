"""The section ``[bucket]``: object storage that the lake is pushed to and pulled from."""

from __future__ import annotations

from pydantic import Field

from holderlake.settings.fields import HttpAddress, Section


class BucketSettings(Section):
    """Object storage that the lake is pushed to and pulled from. Its keys come from the environment, under the names
    that the storage uses itself, such as AWS_ACCESS_KEY_ID."""

    url: str | None = Field(
        default=None, pattern=r"^(s3|gs|az)://[^@\s?]+$", description="Bucket and folder, such as s3://bucket/lake"
    )
    endpoint: HttpAddress | None = Field(default=None, description="Address of an S3 server other than Amazon's")
    region: str | None = Field(default=None, description="The bucket's region")
