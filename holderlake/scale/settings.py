"""The sections ``[cluster]``, machines that compute a history together, and ``[bucket]``, copies of the lake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator, Field

from holderlake.core.setting_types import HttpAddress, Section

if TYPE_CHECKING:  # the settings import this module
    from holderlake.core.settings import Settings


def _location(text: str) -> str:
    if not text.startswith("/") and "://" not in text:
        raise ValueError(
            f"invalid location {text!r}: every machine must reach it; use an absolute path or an address like s3a://…"
        )
    return text.rstrip("/")


class ClusterSettings(Section):
    """A cluster of machines, for histories that are too large for one machine. Without `master` the same tasks run in
    this process."""

    TABLE: ClassVar = "cluster"

    master: str | None = Field(
        default=None,
        pattern=r"^(spark|k8s|sc)://\S+$|^yarn$|^local(\[\S+\])?$",
        description="Address of Spark's master, such as spark://host:7077, or of Spark Connect, such as sc://host:15002",
    )
    folder: Annotated[str, AfterValidator(_location)] | None = Field(
        default=None,
        description="Folder for results of tasks, on storage that all machines share; by default `cluster` in home",
    )
    options: dict[str, str] = Field(default={}, description="Spark's own settings, by their names")


def cluster_folder(settings: Settings) -> str:
    """Return the folder for results of tasks."""
    return settings.section(ClusterSettings).folder or str((settings.home / "cluster").resolve())


class BucketSettings(Section):
    """Object storage that the lake is pushed to and pulled from. Its keys come from the environment, under the names
    that the storage uses itself, such as AWS_ACCESS_KEY_ID."""

    TABLE: ClassVar = "bucket"

    url: str | None = Field(
        default=None, pattern=r"^(s3|gs|az)://[^@\s?]+$", description="Bucket and folder, such as s3://bucket/lake"
    )
    endpoint: HttpAddress | None = Field(default=None, description="Address of an S3 server other than Amazon's")
    region: str | None = Field(default=None, description="The bucket's region")


def iceberg_folder(settings: Settings) -> Path:
    """Return the folder of the Iceberg tables and of their catalogue."""
    return settings.home / "iceberg"
