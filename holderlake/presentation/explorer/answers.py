"""Queries of the explorer's page. Each runs SQL files of ``sql/`` on the warehouse and returns columns by name."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from holderlake.core.contract.times import partition_text
from holderlake.presentation.evidence import NODE_COLUMNS, evidence_of
from holderlake.presentation.explorer.published import Reader

Columns = dict[str, list[Any]]
"""A table as lists of equal length, by column name.

Amounts are exact decimal texts. Instants are texts such as ``20250131T000000Z``, other dates unix seconds.
"""

MOST_TOKENS: Final = 50
"""Limit of tokens in one search result."""
MOST_DIFFERENCES: Final = 200
"""Limit of differences between two sources in one answer."""


def tokens(reader: Reader, text: str) -> Columns:
    """Return up to ``MOST_TOKENS`` tokens that contain all words of ``text`` in name, symbol, address or chain.

    Tokens match too that have a holder whose label contains the text, or whose address begins or ends with it, or
    is shortened to it (``0x4dcd…57b0``). ``wallet``, ``wallet_label`` and ``share`` are of the largest one. The column
    ``found`` has the number of matches.
    """
    phrase = text.strip().lower()
    begin, dots, end = phrase.replace("...", "…").partition("…")
    short = f"{re.escape(begin)}.*{re.escape(end)}" if dots and begin and end else None
    return _query(reader, "tokens", words=phrase.split(), whole=phrase, short=short, most=MOST_TOKENS)


def history(reader: Reader, chain: str, token: str) -> dict[str, Columns]:
    """Return three tables by name: ``token``, ``instants`` and ``failures``.

    ``instants`` has the token's instants in order, with figures of concentration. ``failures`` has its failed requests.
    """
    subject = {"chain": chain, "token": token}
    return {
        "token": _query(reader, "token", **subject),
        "instants": _query(reader, "history", **subject),
        "failures": _query(reader, "failures", **subject, at=None),
    }


def token_map(
    reader: Reader, chain: str, token: str, at: datetime | None = None, added_addresses: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a token's map as of the instant ``at``, or the newest: nodes, links, clusters and failures, by name.

    The text ``at`` is its instant. A token without maps and holders has nothing. ``finding`` is the sentence about the
    map, and ``clusters`` have their evidence: see ``presentation.evidence``.

    The ``added_addresses`` become nodes, with links from the transfers of the own store.

    ``failures`` has the requests for the map that failed. ``links`` is packed to make the JSON smaller: a text column
    has two lists. ``values`` are the distinct texts, ``at`` is the index of each row's text.
    """
    subject: dict[str, Any] = {"chain": chain, "token": token}
    instant = at or _query(reader, "newest", **subject)["at"][0]
    if instant is None:
        return {}
    subject["at"] = instant
    nodes, links = _nodes_and_links(reader, subject, added_addresses)
    parts = {"failures": _query(reader, "failures", **subject), "nodes": nodes, "links": _packed(links)}
    return parts | {"at": partition_text(instant)} | _clusters_and_finding(reader, subject, nodes, links)


def past(reader: Reader, chain: str, token: str) -> dict[str, Any]:
    """Return two tables about all maps of a token, by name: ``nodes`` and ``links``. The page lays them out.

    ``nodes`` has the nodes that were drawn most often, with their average share. ``links`` has pairs of addresses that
    were connected, packed as in ``token_map``. Time nodes are in it with their number.
    """
    subject = {"chain": chain, "token": token}
    return {"nodes": _query(reader, "drawn", **subject), "links": _packed(reader.query(_sql("ties"), subject))}


def owners(reader: Reader, chain: str, token: str, at: datetime, added_addresses: Sequence[str] = ()) -> dict[str, Any]:
    """Return what a token's map as of the instant ``at`` has instead if the wallets of each owner are one node.

    These are ``nodes``, ``clusters`` and ``finding``, as in ``token_map``. The column ``owner`` has the wallets of a
    node. ``figures`` has the concentration by wallet and by owner. Only transfers of an own store are known.
    """
    subject = {"chain": chain, "token": token, "at": at}
    nodes, links = _nodes_and_links(reader, subject, added_addresses)
    merged, node_of = _by_owner(nodes, _rows(_query(reader, "owners", **subject)))
    figures = {"figures": _query(reader, "by_owner", **subject), "nodes": merged}
    return figures | _clusters_and_finding(reader, subject, merged, links, node_of)


def transfers(reader: Reader, chain: str, token: str, ends: tuple[str, str], at: datetime) -> Columns:
    """Return the newest transfers of a token from one address to another up to ``at``; ``found`` is their number.

    Only transfers of an own store are known.
    """
    sender, receiver = ends
    return _query(reader, "transfers", chain=chain, token=token, sender=sender, receiver=receiver, at=at)


def counterparties(reader: Reader, chain: str, token: str, address: str, at: datetime) -> Columns:
    """Return the wallets with the most transfers of a token from and to an address up to ``at``, with their numbers.

    Only transfers of an own store are known.
    """
    return _query(reader, "counterparties", chain=chain, token=token, address=address, at=at)


def periods(reader: Reader, chain: str, token: str, address: str, at: datetime) -> Columns:
    """Return what an address got and sent of a token in each month up to ``at``, the newest first.

    Only transfers of an own store are known.
    """
    return _query(reader, "periods", chain=chain, token=token, address=address, at=at)


def comparison(reader: Reader, chain: str, token: str, start: datetime, end: datetime) -> Columns:
    """Return the holders of a token that are in its list at one or both of two instants, with a row for each.

    The columns have rank, share and amount at both instants, and their change.
    """
    return _query(reader, "compare", chain=chain, token=token, before=start, after=end)


def sources(reader: Reader, chain: str, token: str, at: datetime) -> Columns:
    """Return the differences between two sources about a token as of ``at``, at most ``MOST_DIFFERENCES`` of each pair.

    Only comparisons that ``holderlake compare --keep`` made are known. A pair without differences has one row, whose
    ``what`` is equal.
    """
    return _query(reader, "sources", chain=chain, token=token, at=at, most=MOST_DIFFERENCES)


def _query(reader: Reader, name: str, **parameters: Any) -> Columns:
    columns: Columns = reader.query(_sql(name), parameters).to_pydict()
    return columns


def _nodes_and_links(reader: Reader, subject: dict[str, Any], added: Sequence[str]) -> tuple[Columns, pa.Table]:
    links = reader.query(_sql("links"), subject)
    if added:
        added_links = reader.query(_sql("added_links"), subject | {"added": list(added)})
        links = pa.concat_tables([links, added_links.cast(links.schema)])
    return _query(reader, "nodes", **subject, added=list(added)), links


def _clusters_and_finding(
    reader: Reader, subject: dict[str, Any], nodes: Columns, links: pa.Table, node_of: dict[str, int] | None = None
) -> dict[str, Any]:
    """Return the clusters of a map with their evidence, and the sentence about the map."""
    clusters, token = _query(reader, "clusters", **subject), (subject["chain"], subject["token"])
    known = _rows({name: nodes[name] for name in (*NODE_COLUMNS, "share_in_cluster") if name in nodes})
    finding, evidence = evidence_of(known, links, _rows(clusters), token, subject["at"], node_of)
    return {"clusters": clusters | evidence, "finding": finding}


def _by_owner(nodes: Columns, wallets: Sequence[dict[str, Any]]) -> tuple[Columns, dict[str, int]]:
    """Return the nodes with the wallets of each owner as one node, and the number of each wallet's node.

    An owner is drawn if one of its wallets is, or if it has as much as the smallest drawn holder.
    """
    rows = _rows(nodes)
    at = {row["address"]: row for row in rows if row["kind"] != "time"}
    drawn = (row for row in rows if row["kind"] == "top_holder" and row["is_shown_on_map"] is not False)
    least = min((row["share"] for row in drawn if row["share"] is not None), default=math.inf)
    owner_of: dict[str, dict[str, Any]] = {}
    for address, listed in groupby(wallets, itemgetter("owner")):
        found = list(listed)
        members = [
            {name: wallet[name] for name in ("address", "share", "amount", "confidence", "kinds")}
            | {"label": at.get(wallet["address"], {}).get("label")}
            for wallet in found
        ]
        top, own = found[0], [at[member["address"]] for member in members if member["address"] in at]
        is_drawn = (top["owner_share"] or 0) >= least or any(row["kind"] == "top_holder" for row in own)
        if is_drawn or own:
            owner = {"address": address, "label": f"{top['wallets']} wallets", "rank": 0, "is_shown_on_map": True}
            owner |= {"kind": "top_holder" if is_drawn else "holder", "share": top["owner_share"]}
            owner |= {"amount": top["owner_amount"], "owner": {"wallets": top["wallets"], "members": members}}
            cluster = next((row["cluster_id"] for row in own if row["cluster_id"] is not None), None)
            inside = [row["share"] or 0.0 for row in own if row["cluster_id"] == cluster is not None]
            owner |= {"cluster_id": cluster, "share_in_cluster": sum(inside)}
            owner_of |= dict.fromkeys((member["address"] for member in members), dict.fromkeys(nodes) | owner)
    kept = (row if row["kind"] == "time" else owner_of.get(row["address"], row) for row in rows)
    merged = list({id(row): row for row in (*kept, *owner_of.values())}.values())
    merged.sort(key=lambda row: (row["rank"] is None, -(row["share"] or 0) if row["rank"] is not None else 0))
    for number, row in enumerate(merged):
        row |= {"number": number, "rank": None if row["rank"] is None else number + 1}
    columns = {name: [row.get(name) for row in merged] for name in (*nodes, "owner", "share_in_cluster")}
    return columns, {address: row["number"] for address, row in owner_of.items()}


def _rows(columns: Columns) -> list[dict[str, Any]]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _packed(answer: pa.Table) -> dict[str, Any]:
    """Return the table's columns by name. A text column has its distinct values and each row's index into them.

    Thousands of links connect hundreds of addresses, so the JSON becomes two thirds smaller.
    """
    packed: dict[str, Any] = {}
    for name, column in zip(answer.column_names, answer.columns, strict=True):
        if pa.types.is_string(column.type):
            encoded = column.combine_chunks().dictionary_encode()
            packed[name] = {"values": encoded.dictionary.to_pylist(), "at": encoded.indices.to_pylist()}
        else:
            packed[name] = column.to_pylist()
    return packed


@cache
def queries_hash() -> str:
    """Return a hash of all SQL files. It is part of each answer's ETag, so that a changed query invalidates answers."""
    texts = sorted(
        (file.name, file.read_text("utf-8"))
        for file in files("holderlake.presentation.explorer").joinpath("sql").iterdir()
    )
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


@cache
def _sql(name: str) -> str:
    return files("holderlake.presentation.explorer").joinpath("sql", f"{name}.sql").read_text("utf-8")
