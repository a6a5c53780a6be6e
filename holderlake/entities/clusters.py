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
import pyarrow.parquet as pq

from holderlake.contract.times import to_unix
from holderlake.entities.links import ENTITIES, JOINS, LINKS, SEARCHES, connected

FOLDER: Final = "entities"
"""The folder of a store that has the files."""
_JOINS: Final = """
WITH members AS (
    FROM read_parquet($entities)
    WHERE as_of IS NOT DISTINCT FROM $as_of
),
concerned AS (
    SELECT address
    FROM members
    SEMI JOIN (FROM members WHERE address IN (SELECT unnest($addresses))) AS asked USING (entity)
)
SELECT address, other
FROM read_parquet($joins)
SEMI JOIN concerned USING (address)
WHERE confidence >= $confidence AND as_of IS NOT DISTINCT FROM $as_of
"""
_LINKS: Final = """
SELECT address, kind, link, through, confidence, transfers, first_time, last_time
FROM read_parquet(?)
WHERE address IN (SELECT unnest(?)) AND as_of IS NOT DISTINCT FROM ?
QUALIFY row_number() OVER (PARTITION BY address ORDER BY confidence DESC, kind, link) <= ?
ORDER BY address, confidence DESC, kind, link
"""


@dataclass(frozen=True)
class Known:
    """The preset and the instant (UTC) of a search for entities. The instant is None if the transfers have no times."""

    preset: str
    as_of: datetime | None


def search_at(folder: Path, at: datetime) -> Known | None:
    """Return the newest search as of an instant at or before ``at``, or else the first one. None if there was none."""
    if not (folder / SEARCHES).exists():
        return None
    searches = [Known(row["preset"], row["as_of"]) for row in pq.read_table(folder / SEARCHES).to_pylist()]
    return next((one for one in reversed(searches) if one.as_of is not None and one.as_of <= at), searches[0])


def entities_among(folder: Path, known: Known, addresses: Collection[str], confidence: float) -> list[list[str]]:
    """Return the groups of two addresses or more that joins of at least ``confidence`` connect, also over others.

    ``known`` is the search whose joins count. Within a group the order is that of ``addresses``, and groups are in the
    order of their first address.
    """
    with duckdb.connect() as database:
        parameters = {
            "entities": str(folder / ENTITIES),
            "joins": str(folder / JOINS),
            "as_of": known.as_of,
            "addresses": list(addresses),
            "confidence": confidence,
        }
        joins = database.sql(_JOINS, params=parameters).to_arrow_table()
    wallets, entities = connected(joins["address"].to_numpy(), joins["other"].to_numpy())
    entity = dict(zip(wallets.tolist(), entities.tolist(), strict=True))
    groups: dict[str, list[str]] = defaultdict(list)
    for address in addresses:
        if address in entity:
            groups[entity[address]].append(address)
    return [group for group in groups.values() if len(group) > 1]


def links_of(folder: Path, known: Known, addresses: Collection[str], most: int) -> pa.Table:
    """Return the strongest links of each address that the search ``known`` found, at most ``most`` of each.

    The columns are those of ``links.LINKS``.
    """
    with duckdb.connect() as database:
        parameters = [str(folder / LINKS), list(addresses), known.as_of, most]
        return database.sql(_LINKS, params=parameters).to_arrow_table()


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as plain data, with times in unix seconds."""
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        for name in ("first_time", "last_time"):
            row[name] = None if row[name] is None else to_unix(row[name])
    return rows
