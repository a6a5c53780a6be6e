"""Rows of every table, for tests of lake and warehouse."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from holderlake.core.contract.tables import MAP_TABLES, TABLES, amount_columns, build, with_fetched_at
from holderlake.core.lake.lake import Lake, Manifest, PartitionUpdate
from holderlake.core.warehouse.warehouse import Warehouse

DAYS = [datetime(2026, 11, day) for day in range(1, 29)]
FETCHED_AT = datetime(2026, 12, 1, 12, 30)


def rows(
    table: str, chain: str, as_of: datetime, listed: Sequence[Mapping[str, Any]], fetched_at: datetime = FETCHED_AT
) -> pa.Table:
    return build(TABLES[table], [{"chain": chain, "as_of": as_of, **row} for row in listed], fetched_at)


def holders(
    chain: str, as_of: datetime, held: Mapping[str, Mapping[str, Any]], fetched_at: datetime = FETCHED_AT
) -> pa.Table:
    """Return holders by token: addresses with their amounts, in the order of their ranks."""
    return rows(
        "holders",
        chain,
        as_of,
        [
            {
                "token_address": token,
                "rank": rank,
                "address": address,
                "share": 0.1,
                **amount_columns("amount", Decimal(amount)),
            }
            for token, amounts in held.items()
            for rank, (address, amount) in enumerate(amounts.items(), 1)
        ],
        fetched_at,
    )


def map_tables(
    chain: str,
    as_of: datetime,
    clusters: Mapping[str, Sequence[Sequence[str]]],
    score: float = 50.0,
    shares: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, pa.Table]:
    """Return the five tables of maps by token, each with clusters of these holders. Their share is 0.1 by default."""
    maps, nodes, transfers, groups, members = [], [], [], [], []
    for token, listed in clusters.items():
        of_token = {"token_address": token}
        maps.append(of_token | {"dt_update": as_of.isoformat(), "service_score": score})
        for number, addresses in enumerate(listed, 1):
            amount = amount_columns("amount", Decimal(len(addresses)))
            counts = {"holder_count": len(addresses), "magic_node_count": 0}
            of_each = [shares.get(address, 0.1) for address in addresses]
            groups.append(of_token | {"cluster_id": number, "share": sum(of_each)} | counts | amount)
            for address, share in zip(addresses, of_each, strict=True):
                holder = {"kind": "top_holder", "address": address, "is_shown_on_map": True, "share": share}
                nodes.append(of_token | holder)
                members.append(of_token | {"cluster_id": number, "address": address, "kind": "holder"})
            for one, other in pairwise(addresses):
                transfers.append(of_token | transfer(one, other, token, chain))
    every = zip(MAP_TABLES, (maps, nodes, transfers, groups, members), strict=True)
    return {name: rows(name, chain, as_of, part) for name, part in every}


def transfer(sender: str, receiver: str, token: str, chain: str, value: str = "5", count: int = 2) -> dict[str, Any]:
    return {
        "from_address": sender,
        "to_address": receiver,
        "rel_type": "GROUPED_TRANSFER",
        "transfer_chain": chain,
        "transfer_token": token,
        "total_transfers": count,
        "first_date": DAYS[0],
        "last_date": DAYS[0],
        **amount_columns("total_value", Decimal(value)),
    }


def failures(chain: str, as_of: datetime, *failed: tuple[str, str]) -> pa.Table:
    """Return a failure for each endpoint and subject."""
    return rows(
        "failures",
        chain,
        as_of,
        [
            {"endpoint": endpoint, "subject": subject, "code": "no_holders", "reason": f"{subject} has no holders"}
            for endpoint, subject in failed
        ],
    )


def write_holders(lake: Lake, chain: str, as_of: datetime, held: Mapping[str, Mapping[str, Any]]) -> Manifest:
    """Commit the holders of tokens."""
    return write(lake, "holders", chain, as_of, {"holders": holders(chain, as_of, held)}, set(held))


def write_maps(
    lake: Lake,
    chain: str,
    as_of: datetime,
    clusters: Mapping[str, Sequence[Sequence[str]]],
    score: float = 50.0,
) -> Manifest:
    """Commit the maps of tokens."""
    return write(lake, "maps", chain, as_of, map_tables(chain, as_of, clusters, score), set(clusters))


def write(  # noqa: PLR0913, PLR0917 - the parts of a commit
    lake: Lake,
    family: str,
    chain: str,
    as_of: datetime,
    tables: Mapping[str, pa.Table],
    covered: set[str],
    failed: pa.Table | None = None,
    by: str = "token",
    final: bool = False,
    at: datetime | None = None,
    unsent: Collection[str] = (),
) -> Manifest:
    """Commit the tables of covered subjects, and failures. All rows were fetched ``at`` that time, if it is given.

    ``unsent`` are subjects that were not requested because the run stopped.
    """
    requested = covered | set(failed["subject"].to_pylist() if failed is not None else ())
    if at is not None:
        tables = {
            name: with_fetched_at(TABLES[name], rows.drop_columns("fetched_at"), at) for name, rows in tables.items()
        }
    times = [
        time for rows in tables.values() if "fetched_at" in rows.column_names for time in rows["fetched_at"].to_pylist()
    ]
    answered = dict.fromkeys(covered, at or max(times, default=FETCHED_AT))
    parts = {"requested": requested, "covered": answered, "failures": failed, "final": final, "unsent": unsent}
    return lake.write(PartitionUpdate(family, chain, as_of, tables, provider="tests", by=by, options={}, **parts))


def query(warehouse: Warehouse, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    return [tuple(row.values()) for row in warehouse.query(sql, parameters).to_pylist()]


def count(warehouse: Warehouse, table: str) -> int:
    """Return the number of rows of a table, view or macro."""
    return int(query(warehouse, f"SELECT count(*) FROM {table}")[0][0])
