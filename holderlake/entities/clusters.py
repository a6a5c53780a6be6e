"""The entities among a token's holders, from the files that ``links`` wrote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from holderlake.contract.times import to_unix
from holderlake.entities.links import ENTITIES, JOINS, LINKS, connected

FOLDER: Final = "entities"
"""The folder of a store that has the files."""
_LINKS: Final = """
SELECT address, kind, link, through, confidence, transfers, first_time, last_time
FROM read_parquet(?)
WHERE address IN (SELECT unnest(?))
QUALIFY row_number() OVER (PARTITION BY address ORDER BY confidence DESC, kind, link) <= ?
ORDER BY address, confidence DESC, kind, link
"""


@dataclass(frozen=True)
class Known:
    """The preset and the instant (UTC) of the last search for entities."""

    preset: str
    as_of: datetime


def last_search(folder: Path) -> Known | None:
    """Return what the last search was about. None if there was none, or if it found nothing."""
    if not (folder / ENTITIES).exists():
        return None
    with duckdb.connect() as database:
        found = database.execute("SELECT preset, as_of FROM read_parquet(?) LIMIT 1", [str(folder / ENTITIES)])
        return next((Known(*row) for row in found.fetchall()), None)


def entities_among(folder: Path, addresses: Collection[str], confidence: float) -> list[list[str]]:
    """Return the groups of two addresses or more that joins of at least ``confidence`` connect, also over others.

    Within a group the order is that of ``addresses``, and groups are in the order of their first address.
    """
    with duckdb.connect() as database:
        query = "SELECT address, other FROM read_parquet(?) WHERE confidence >= ?"
        joins = database.sql(query, params=[str(folder / JOINS), confidence]).to_arrow_table()
    wallets, entities = connected(joins["address"].to_numpy(), joins["other"].to_numpy())
    entity = dict(zip(wallets.tolist(), entities.tolist(), strict=True))
    groups: dict[str, list[str]] = defaultdict(list)
    for address in addresses:
        if address in entity:
            groups[entity[address]].append(address)
    return [group for group in groups.values() if len(group) > 1]


def links_of(folder: Path, addresses: Collection[str], most: int) -> pa.Table:
    """Return the strongest links of each address, at most ``most`` of each, in the columns of ``links.LINKS``."""
    with duckdb.connect() as database:
        return database.sql(_LINKS, params=[str(folder / LINKS), list(addresses), most]).to_arrow_table()


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as plain data, with times in unix seconds."""
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        for name in ("first_time", "last_time"):
            row[name] = None if row[name] is None else to_unix(row[name])
    return rows
