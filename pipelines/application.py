"""What other rooms add to a Dagster application: their assets, checks, jobs, schedules and sensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dagster import Definitions

from holderlake.core.dagster.runs import INGEST
from holderlake.core.ingest.stream import Stream
from holderlake.core.registry import Kind
from holderlake.core.settings import Settings
from holderlake.resources.workspace import WORKSPACE


@dataclass(frozen=True)
class Application:
    """The application that the parts are for: this one, or a component in a project of your own.

    ``streams`` are its families of tables, ``jobs`` the names of its jobs, ``ingest`` that of the job of one day, and
    ``cron`` the schedule of that job (by default the setting's). ``name`` is a component's name; without a name, it is
    this application. ``key_prefix`` are the first parts of asset keys, ``resource`` is the name of the workspace.
    """

    settings: Settings
    streams: Sequence[Stream]
    jobs: Collection[str]
    ingest: str = INGEST
    cron: str | None = None
    name: str | None = None
    key_prefix: Sequence[str] = ()
    resource: str = WORKSPACE

    @property
    def tables(self) -> list[str]:
        """The names of all tables of the streams."""
        return [table for stream in self.streams for table in stream.tables]

    @property
    def of_assets(self) -> dict[str, Any]:
        """The arguments that factories of assets and checks share."""
        return {"key_prefix": self.key_prefix, "resource": self.resource}

    def named(self, name: str) -> str:
        """Return the name of a job, schedule or sensor; that of a component begins with the component's name."""
        return name if self.name is None else f"{self.name}_{name}"


DAGSTER: Final[Kind[Callable[[Application], Definitions]]] = Kind("dagster")
"""Definitions that other rooms add to an application."""


def part_definitions(application: Application) -> list[Definitions]:
    """Return the definitions of all parts."""
    return [part(application) for part in DAGSTER.parts()]
