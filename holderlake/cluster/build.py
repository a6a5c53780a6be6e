"""Build the derived tables on the cluster, as Parquet, from raw transfers.

A build writes a new folder that contains a folder for each table. At the end it adds a row to the table ``builds``. The
folder of a build without a row can be removed, because the build was killed.
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
from holderlake.cluster.statements import BUILD, statement
from holderlake.contract.times import utc_now

_BUILDS: Final = pa.schema(
    [("location", pa.string()), ("finished_at", pa.timestamp("us")), ("files", pa.int64()), ("digest", pa.string())]
)


@dataclass(frozen=True)
class Build:
    """A finished build. ``location`` is its folder, ``files`` the number of files of raw transfers that it read.

    ``digest`` identifies these files (see ``digest_of``); it is empty if they do not belong to a store.
    """

    location: str
    finished_at: datetime
    files: int
    digest: str


def build(
    engine: Engine, raw: Sequence[str], root: str, digest: str = "", on_table: Callable[[str], None] = lambda _: None
) -> Build:
    """Write the derived tables to a new folder in ``root``. ``raw`` are Parquet files of transfers
    (``records.TRANSFERS``).

    ``digest`` is recorded in the result. ``on_table`` is called with the name of each finished table.
    """
    name = f"build-{uuid4().hex}"
    engine.read("raw", raw)
    for table in BUILD:
        engine.run(statement(table), {})
        engine.save(table, f"{root}/{name}/{table}")
        engine.read(table, [f"{root}/{name}/{table}"])  # the next tables read it instead of computing it again
        on_table(table)
    built = Build(f"{root}/{name}", utc_now(), len(raw), digest)
    engine.register("built", pa.Table.from_pylist([vars(built)], _BUILDS))
    engine.save("built", f"{root}/builds/{name}")
    return built


def latest_build(engine: Engine, root: str) -> Build | None:
    """Return the last finished build in ``root``; None if there is none."""
    try:
        engine.read("builds", [f"{root}/builds/*/*.parquet"])
    except FileNotFoundError:
        return None
    builds = [Build(**row) for row in engine.table("builds").select(_BUILDS.names).cast(_BUILDS).to_pylist()]
    return max(builds, key=lambda build: build.finished_at, default=None)


def digest_of(raw: Sequence[str]) -> str:
    """Return a digest of the names of a store's files ``raw``. It identifies their content, which never changes."""
    return hashlib.sha256("\n".join(sorted(PurePath(path).name for path in raw)).encode()).hexdigest()
