"""Renders the engine's Arrow tables as the contract's JSON objects, with exact amounts.

These are pure functions. Parts of an answer that were not requested are null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from holderlake.contract.exact_json import json_number
from holderlake.contract.models import GROUPED_TRANSFER
from holderlake.contract.requests import MapOptions
from holderlake.contract.tables import DETAIL_COLUMNS, exact_amount
from holderlake.contract.times import to_unix

Plain = dict[str, Any]
Row = Mapping[str, Any]

_EXACT = Context(prec=400)
_SUPPLY_STATS = ("cexs", "dexs", "contracts", "fresh_wallets", "top_10_adjusted", "bundles")
OLDER_SCORE = "decentralization_score"
"""Name of ``service_score`` before version 0.3.0 of the API. It was a field of the map itself."""
_SCORES = ("service_score", "gini_index", "herfindahl_hirschman_index", "nakamoto_coefficient")


@dataclass(frozen=True)
class RawUnits:
    """Numbers of decimals of tokens, by which amounts are converted to raw integers.

    ``decimals`` is the number of the map's token. ``of_token`` has the number of each token in the map's transfers, by
    (chain, address).
    """

    decimals: int
    of_token: Mapping[tuple[str, str], int]


def chains(table: pa.Table) -> list[Plain]:
    """Return chains as the contract's ``Chain[]``."""
    return [{"id": row["chain"]} | _pick(row, ("name", "dexscreener_id", "coingecko_id")) for row in table.to_pylist()]


def tokens(table: pa.Table, stats: bool) -> list[Plain]:
    """Return tokens as the contract's ``Token[]``, with their statistics if ``stats`` is true."""
    return [_token(row, stats) for row in table.to_pylist()]


def holders(table: pa.Table, details: bool, raw: RawUnits | None = None) -> list[Plain]:
    """Return holders as the contract's ``Holder[]``, ordered by rank.

    ``details`` adds the address details. ``raw`` adds raw amounts, None leaves them out.
    """
    return [
        {
            "address": row["address"],
            "holder_data": _holder_data(row, raw),
            "address_details": _details(row) if details else None,
        }
        for row in table.to_pylist()
    ]


def addresses(table: pa.Table) -> list[Plain]:
    """Return addresses as the contract's ``AddressMetadata[]``."""
    return [{"address": row["address"], "address_details": _details(row)} for row in table.to_pylist()]


def relationships(table: pa.Table) -> list[Plain]:
    """Return grouped transfers as the contract's ``GroupedTransfer[]``."""
    return [relationship(row) for row in table.to_pylist()]


def token_map(
    tables: Mapping[str, pa.Table], options: MapOptions, raw: RawUnits | None = None, score_names: Sequence[str] = ()
) -> Plain:
    """Return the tables of a map as the contract's ``Map``.

    ``raw`` adds raw amounts, None leaves them out. The result repeats ``service_score`` in the fields ``score_names``.
    """
    transfers = tables["grouped_transfers"].to_pylist()
    older = {OLDER_SCORE: _map_row(tables)["service_score"]} if OLDER_SCORE in score_names else {}
    return {
        "metadata": _map_metadata(tables),
        "metrics": metrics(tables, score_names),
        "nodes": _nodes(tables["map_nodes"].to_pylist(), transfers, options, raw) if options.return_nodes else None,
        "relationships": _in_time_node(transfers, None, raw) if options.return_relationships else None,
        "clusters": _clusters(tables, raw) if options.return_clusters else None,
        **older,
    }


def metrics(tables: Mapping[str, pa.Table], score_names: Sequence[str] = ()) -> Plain:
    """Return the field ``metrics`` of the contract's ``Map``.

    It repeats ``service_score`` in the fields ``score_names``.
    """
    row = _map_row(tables)
    scores = _pick(row, _SCORES) | dict.fromkeys(score_names, row["service_score"])
    return {"supply_stats": _pick(row, _SUPPLY_STATS), "scores": scores}


def dt_update(tables: Mapping[str, pa.Table]) -> str:
    """Return the time of a map's computation as text, for its metadata and the header ``X-Dt-Update``."""
    return str(_map_row(tables)["dt_update"])


def _map_row(tables: Mapping[str, pa.Table]) -> Row:
    row: Row = tables["maps"].to_pylist()[0]
    return row


def _map_metadata(tables: Mapping[str, pa.Table]) -> Plain:
    text = dt_update(tables)
    return {"dt_update": text, "ts_update": to_unix(datetime.fromisoformat(text))}


def _nodes(rows: list[Row], transfers: list[Row], options: MapOptions, raw: RawUnits | None) -> Plain:
    by_kind: dict[str, list[Row]] = {"top_holder": [], "magic": [], "time": []}
    for row in rows:
        by_kind[row["kind"]].append(row)
    return {
        "top_holders": [_node(row) | {"holder_data": _holder_data(row, raw)} for row in by_kind["top_holder"]],
        "magic_nodes": [_node(row) for row in by_kind["magic"]] if options.use_magic_nodes else None,
        "time_nodes": [_time_node(row, transfers, raw) for row in by_kind["time"]] if options.use_time_nodes else None,
    }


def _node(row: Row) -> Plain:
    return {
        "address": row["address"],
        "address_details": _details(row),
        "is_shown_on_map": row["is_shown_on_map"],
    }


def _time_node(row: Row, transfers: list[Row], raw: RawUnits | None) -> Plain:
    return {"address": row["address"], "relationships": _in_time_node(transfers, row["time_node"], raw)}


def _in_time_node(transfers: list[Row], time_node: int | None, raw: RawUnits | None) -> list[Plain]:
    return [relationship(row, raw) for row in transfers if row["time_node"] == time_node]


def _clusters(tables: Mapping[str, pa.Table], raw: RawUnits | None) -> list[Plain]:
    members: dict[tuple[int, str], list[str]] = {}
    for member in tables["cluster_members"].to_pylist():
        members.setdefault((member["cluster_id"], member["kind"]), []).append(member["address"])
    return [
        {
            "share": row["share"],
            "amount": _amount(row, "amount"),
            **_raw_amount(row, "amount", raw.decimals if raw else None),
            "holder_count": row["holder_count"],
            "holders": members.get((row["cluster_id"], "holder"), []),
            "magic_node_count": row["magic_node_count"],
            "magic_nodes": members.get((row["cluster_id"], "magic"), []),
        }
        for row in tables["clusters"].to_pylist()
    ]


def relationship(row: Row, raw: RawUnits | None = None) -> Plain:
    """Return one row of grouped transfers as the contract's ``GroupedTransfer``."""
    token = (row["transfer_chain"], row["transfer_token"])
    return {
        "from_address": row["from_address"],
        "to_address": row["to_address"],
        "rel_type": GROUPED_TRANSFER,
        "data": {
            "total_value": _amount(row, "total_value"),
            **_raw_amount(row, "total_value", raw.of_token[token] if raw else None),
            "total_transfers": row["total_transfers"],
            "first_date": to_unix(row["first_date"]),
            "last_date": to_unix(row["last_date"]),
            "token_key": dict(zip(("chain", "address"), token, strict=True)),
        },
    }


def _token(row: Row, stats: bool) -> Plain:
    return {
        "token_key": {"chain": row["chain"], "address": row["token_address"]},
        "metadata": _pick(row, ("name", "symbol", "is_indexed", "img_url")),
        "stats": {
            "transfers_count": row["transfers_count"],
            "min_date": _date_time(row["min_date"]),
            "max_date": _date_time(row["max_date"]),
        }
        if stats
        else None,
    }


def _holder_data(row: Row, raw: RawUnits | None) -> Plain:
    data = {"amount": _amount(row, "amount"), "rank": row["rank"], "share": row["share"]}
    return data | _raw_amount(row, "amount", raw.decimals if raw else None)


def _details(row: Row) -> Plain:
    details = _pick(row, DETAIL_COLUMNS)
    return details | {"first_activity_date": _date_time(details["first_activity_date"])}


def _amount(row: Row, name: str) -> Decimal | None:
    exact = exact_amount(row, name)
    return None if exact is None else json_number(exact)


def _raw_amount(row: Row, name: str, decimals: int | None) -> Plain:
    """Return the field ``<name>_raw`` of a row: its amount in raw integer units, as text.

    The result is empty if ``decimals`` or the amount is None.
    """
    exact = exact_amount(row, name)
    if decimals is None or exact is None:
        return {}
    return {f"{name}_raw": format(_EXACT.scaleb(exact, decimals), ".0f")}


def _date_time(instant: datetime | None) -> str | None:
    return f"{instant.isoformat()}Z" if instant is not None else None


def _pick(row: Row, names: tuple[str, ...]) -> Plain:
    return {name: row[name] for name in names}
