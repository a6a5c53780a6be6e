"""One sentence about a map, as ``presentation.evidence`` makes it, from the tables of a map."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.presentation.evidence import evidence_of
from holderlake.presentation.pictures.drawing.text import display_name
from holderlake.presentation.pictures.scene import Node


def finding_of(tables: Mapping[str, pa.Table], as_of: datetime) -> tuple[str, str]:
    """Return the sentence about the map ``tables``, by name, as of an instant (UTC, without zone), and its notes."""
    cluster_of = {row["address"]: row["cluster_id"] for row in tables["cluster_members"].to_pylist()}
    nodes = [row | {"cluster_id": cluster_of.get(row["address"])} for row in tables["map_nodes"].to_pylist()]
    nodes.sort(key=lambda row: (row["rank"] or 1e9, row["kind"], row["address"]))
    clusters = sorted(tables["clusters"].to_pylist(), key=lambda row: int(row["cluster_id"]))
    links = tables["grouped_transfers"].rename_columns({"total_transfers": "transfers"})
    links = links.append_column(
        "amount", pc.coalesce(links["total_value_exact"], links["total_value"].cast(pa.string()))
    )
    links = links.sort_by([("transfers", "descending"), ("from_address", "ascending"), ("to_address", "ascending")])
    (of,) = tables["maps"].select(["chain", "token_address"]).to_pylist()
    parts, _ = evidence_of(nodes, links, clusters, (of["chain"], of["token_address"]), as_of)
    labels = {row["address"]: row["label"][:60] for row in nodes if row["label"]}

    def name(marked: re.Match[str]) -> str:
        address = nodes[int(marked[1])]["address"]
        return display_name(Node(address, None, None, labels.get(address), None))

    first, notes = (re.sub(r"\{name (\d+)\}", name, part) for part in parts)
    return first and f"{first}.", notes
