"""The store build on the cluster: the derived tables, as Parquet, from raw transfers.

A build is a folder of its own, with a folder a table. It is there when the row of the table ``builds`` that names it
is, which is written last; a build that was killed is named nowhere, and its folder may be removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import uuid4

import pyarrow as pa

from cluster.answers import Engine
from cluster.statements import BUILD
from contract.times import utc_now


def build(engine: Engine, raw: Sequence[str], root: str, told: Callable[[str], None] = lambda _: None) -> str:
    """Makes the derived tables of the raw transfers (Parquet in the layout ``engine.records.TRANSFERS``).

    Gives the location of the build, a folder of ``root``; ``told`` hears the name of each table as it is finished.
    """
    location = f"{root}/build-{uuid4().hex}"
    engine.read("raw", raw)
    for name in BUILD:
        engine.make(name, {})
        engine.save(name, f"{location}/{name}")
        engine.read(name, [f"{location}/{name}"])  # what follows reads it, rather than making it again
        told(name)
    return location
