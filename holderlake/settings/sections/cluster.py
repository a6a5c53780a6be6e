"""The section ``[cluster]``: the engine on several machines."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from holderlake.settings.fields import Section


def _location(text: str) -> str:
    if not text.startswith("/") and "://" not in text:
        raise ValueError(
            f"invalid location {text!r}: every machine must reach it; use an absolute path or an address like s3a://…"
        )
    return text.rstrip("/")


class ClusterSettings(Section):
    """A cluster of machines, for histories that are too large for one machine. Without `master` the same statements
    run on DuckDB in this process."""

    master: str | None = Field(
        default=None,
        pattern=r"^(spark|k8s)://\S+$|^yarn$|^local(\[\S+\])?$",
        description="Address of Spark's master, such as spark://host:7077",
    )
    folder: Annotated[str, AfterValidator(_location)] | None = Field(
        default=None,
        description="Place of derived tables that all machines reach: a folder or s3a://; by default `cluster` in home",
    )
    instants: int = Field(default=32, ge=1, description="Instants computed together; a killed fill loses at most these")
    options: dict[str, str] = Field(default={}, description="Spark's own settings, by their names")
