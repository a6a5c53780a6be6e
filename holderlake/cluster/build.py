"""The store build on the cluster: the derived tables, as Parquet, from raw transfers.

A build is a folder of its own, with a folder a table. It is there when a row of ``builds`` names it, which is written
last; a build that was killed is named nowhere, and its folder may be removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Final
from uuid import uuid4

import pyarrow as pa

from holderlake.cluster.answers import Engine
from holderlake.cluster.statements import BUILD
from holderlake.contract.times import utc_now

_BUILDS: Final = pa.schema(
    [("location", pa.string()), ("finished_at", pa.timestamp("us")), ("files", pa.int64()), ("digest", pa.string())]
)


@dataclass(frozen=True)
class Build:
    """Where a finished build is, and of how many files of raw transfers it was made.

    ``digest`` tells which files of a store these were (see ``digest_of``); it is empty for files beside a store.
    """

    location: str
    finished_at: datetime
    files: int
    digest: str


def build(
    engine: Engine, raw: Sequence[str], root: str, digest: str = "", told: Callable[[str], None] = lambda _: None
) -> Build:
    """Makes the derived tables below ``root`` of raw transfers: Parquet in the layout ``engine.records.TRANSFERS``.

    ``told`` hears the name of each table as it is finished.
    """
    name = f"build-{uuid4().hex}"
    engine.read("raw", raw)
    for table in BUILD:
        engine.make(table, {})
        engine.save(table, f"{root}/{name}/{table}")
        engine.read(table, [f"{root}/{name}/{table}"])  # what follows reads it, rather than making it again
        told(table)
    built = Build(f"{root}/{name}", utc_now(), len(raw), digest)
    engine.give("built", pa.Table.from_pylist([vars(built)], _BUILDS))
    engine.save("built", f"{root}/builds/{name}")
    return built


def latest_build(engine: Engine, root: str) -> Build | None:
    """The last build that was finished, or None."""
    try:
        engine.read("builds", [f"{root}/builds/*/*.parquet"])
    except FileNotFoundError:
        return None
    found = [Build(**row) for row in engine.table("builds").select(_BUILDS.names).cast(_BUILDS).to_pylist()]
    return max(found, key=lambda one: one.finished_at, default=None)


def digest_of(raw: Sequence[str]) -> str:
    """Tells sets of files apart, by their names: those of a store never change under their names."""
    return hashlib.sha256("\n".join(sorted(PurePath(one).name for one in raw)).encode()).hexdigest()
