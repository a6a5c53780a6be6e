"""Computes the answers of endpoints beyond the contract, under ``/v0/x/``, with one function for each endpoint.

Each function takes the store, the parsed request and the current time (UTC), and returns an ``Answer``.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from math import fsum
from typing import Any, Final

import pyarrow as pa

from holderlake.analysis.entities import clusters
from holderlake.core.contract.fields import fields_of
from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.times import from_unix, to_unix
from holderlake.engine.catalog.labels import labels_of
from holderlake.engine.maps.evidence import cluster_evidence
from holderlake.engine.queries.holders import HolderPosition, holders_page
from holderlake.engine.queries.items import holders_of_item, items_of_address
from holderlake.engine.store.store import Store
from holderlake.service.api.answers import Answer, instant_of, raw_units
from holderlake.service.errors import ServiceError
from holderlake.service.extra_models import EvidenceLink, HeldItem, ItemHolder, SourceLabel, Transfer, VerifiedToken
from holderlake.service.extra_requests import (
    AddressItemsRequest,
    EvidenceRequest,
    HoldersPageRequest,
    ItemRequest,
    LabelsRequest,
    OwnersRequest,
)
from holderlake.service.output.render import holders as render_holders
from holderlake.service.output.render import objects
from holderlake.sources.rpc.verified import read_verified

_SIGNATURE: Final = 16


@dataclass(frozen=True)
class Cursor:
    """A place between two pages of a token's list of holders.

    ``as_of`` is the instant of the list (unix seconds). ``position`` has the last holder of the page before the place.
    """

    as_of: int
    position: HolderPosition

    def text(self, secret: bytes, subject: str) -> str:
        """Return the cursor as text for the query parameter ``cursor``, signed for one token (``subject``)."""
        end = self.position
        plain = json.dumps([self.as_of, str(end.balance), end.address, end.rank], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(_signature(plain, secret, subject) + plain).decode().rstrip("=")


def read_cursor(text: str, secret: bytes, subject: str) -> Cursor:
    """Parse the text of a cursor. Raises ``ServiceError`` if it was not signed for this token (``subject``)."""
    try:
        signed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        signed = b""
    signature, plain = signed[:_SIGNATURE], signed[_SIGNATURE:]
    if not hmac.compare_digest(signature, _signature(plain, secret, subject)):
        raise ServiceError("unknown_cursor", "Invalid cursor: use 'next_cursor' of a page of this token")
    as_of, balance, address, rank = json.loads(plain)
    return Cursor(as_of, HolderPosition(int(balance), address, rank))


def _signature(plain: bytes, secret: bytes, subject: str) -> bytes:
    return hmac.digest(secret, f"cursor {subject} ".encode() + plain, "sha256")[:_SIGNATURE]


def holders(store: Store, request: HoldersPageRequest, now: datetime, *, secret: bytes) -> Answer:
    """Return the answer to GET /v0/x/tokens/holders: a page of holders. ``secret`` signs the cursors.

    Raises ``ServiceError`` for a cursor that was not made for this token and instant.
    """
    options = request.options
    cursor = None if options.cursor is None else read_cursor(options.cursor, secret, request.subject)
    as_of, is_past = instant_of(options.timestamp, now)
    if cursor is not None:
        if options.timestamp is not None and to_unix(as_of) != cursor.as_of:
            raise ServiceError(
                "unknown_cursor",
                f"The cursor belongs to the timestamp {cursor.as_of}: send this 'timestamp', or none",
            )
        as_of, is_past = from_unix(cursor.as_of), True
    table, position = holders_page(
        store,
        request.chain,
        request.token_address,
        as_of,
        options.limit,
        after_holder=cursor.position if cursor else None,
        details=options.return_metadata,
    )
    next_cursor = Cursor(to_unix(as_of), position).text(secret, request.subject) if position else None
    raw = raw_units(store, request.chain, request.token_address)

    def plain() -> Any:
        listed = render_holders(table, options.return_metadata, raw)
        return {"as_of": to_unix(as_of), "holders": listed, "next_cursor": next_cursor}

    headers = (("X-Next-Cursor", next_cursor),) if next_cursor else ()
    return Answer(plain, table, as_of, is_past, headers=headers)


def evidence(store: Store, request: EvidenceRequest, now: datetime) -> Answer:
    """Return the answer to GET /v0/x/tokens/evidence: the transfers that link the members of clusters."""
    options = request.options
    as_of, is_past = instant_of(options.timestamp, now)
    names = ("limit", "use_magic_nodes", "use_time_nodes")
    of_map = MapOptions(**{name: getattr(options, name) for name in names})
    tables = cluster_evidence(
        store, request.chain, request.token_address, as_of, of_map, options.cluster, options.transfers
    )
    return Answer(partial(_evidence, tables, as_of), tables["links"], as_of, is_past)


def _evidence(tables: Mapping[str, pa.Table], as_of: datetime) -> Any:
    transfers: dict[tuple[Any, ...], list[Any]] = {}
    for key, transfer in zip(_link_keys(tables["transfers"]), objects(Transfer, tables["transfers"]), strict=True):
        transfers.setdefault(key, []).append(transfer)
    keys = _link_keys(tables["links"])
    links = objects(EvidenceLink, tables["links"], {"transfers": [transfers.get(key, []) for key in keys]})
    linked: dict[int, list[Any]] = {}
    for (cluster_id, *_), link in zip(keys, links, strict=True):
        linked.setdefault(cluster_id, []).append(link)
    return {
        "as_of": to_unix(as_of),
        "clusters": [{"cluster_id": number, "links": links} for number, links in linked.items()],
    }


def _link_keys(table: pa.Table) -> list[tuple[Any, ...]]:
    names = ["cluster_id", "from_address", "to_address", "transfer_chain", "transfer_token", "time_node"]
    return [tuple(row.values()) for row in table.select(names).to_pylist()]


def owners(store: Store, request: OwnersRequest, now: datetime) -> Answer:
    """Return the answer to GET /v0/x/tokens/clusters: the clusters of holders that probably have one owner."""
    options, folder = request.options, store.root / clusters.FOLDER
    as_of, is_past = instant_of(options.timestamp, now)
    search = clusters.search_at(folder, as_of)
    if search is None:
        raise ServiceError(
            "no_entities", "This service has no entities yet; its owner runs 'holderlake store entities'"
        )
    page, _ = holders_page(store, request.chain, request.token_address, as_of, options.limit)
    shares = dict(zip(page["address"].to_pylist(), page["share"].to_pylist(), strict=True))
    entities = clusters.entities_among(folder, search, shares, options.confidence)
    links = clusters.links_of(folder, search, [address for entity in entities for address in entity], options.links)

    def plain() -> Any:
        rows = clusters.plain(links)
        owner_clusters: list[dict[str, Any]] = [
            {
                "share": min(1.0, fsum(shares[address] for address in entity)),
                "holders": entity,
                "links": [row for address in entity for row in rows.get(address, ())],
            }
            for entity in entities
        ]
        owner_clusters.sort(key=lambda cluster: cluster["share"], reverse=True)
        return {
            "as_of": to_unix(as_of),
            "entities_as_of": None if search.as_of is None else to_unix(search.as_of),
            "least_confidence": search.confidence,
            "clusters": owner_clusters,
        }

    return Answer(plain, links, as_of, is_past)


def verified(store: Store) -> dict[str, Any]:
    """Return the answer to GET /v0/x/verified: the last check of each token against a node."""
    return {"tokens": objects(VerifiedToken, read_verified(store.root))}


def labels(store: Store, request: LabelsRequest, _now: datetime) -> Answer:
    """Return the answer to GET /v0/x/addresses/labels: all labels of an address."""
    labels = store.read(labels_of, request.address)
    fields = fields_of(SourceLabel)
    plain = [{field.name: getattr(label, field.column) for field in fields} for label in labels]
    return Answer(lambda: {"address": request.address, "labels": plain})


def item(store: Store, request: ItemRequest, now: datetime) -> Answer:
    """Return the answer to GET /v0/x/tokens/items: the holders of one NFT token id."""
    options = request.options
    as_of, is_past = instant_of(options.timestamp, now)
    table = holders_of_item(store, request.chain, request.token_address, int(options.token_id), as_of)
    listed = table.slice(0, options.limit)

    def plain() -> Any:
        holders = objects(ItemHolder, listed)
        return {"as_of": to_unix(as_of), "token_id": options.token_id, "total": table.num_rows, "holders": holders}

    return Answer(plain, listed, as_of, is_past)


def address_items(store: Store, request: AddressItemsRequest, now: datetime) -> Answer:
    """Return the answer to GET /v0/x/addresses/items: a page of the NFT token ids that an address held."""
    options = request.options
    as_of, is_past = instant_of(options.timestamp, now)
    table = items_of_address(store, request.address, as_of, options.chain, options.token_address)
    page = table.slice(options.offset, options.limit)
    end = options.offset + options.limit

    def plain() -> Any:
        return {
            "as_of": to_unix(as_of),
            "address": request.address,
            "total": table.num_rows,
            "items": objects(HeldItem, page),
            "next_offset": end if end < table.num_rows else None,
        }

    return Answer(plain, page, as_of, is_past)
