"""All that is known of an address by name, as one label. Reading label files is the sources' work."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from holderlake.contract.chains import BURN_ADDRESSES
from holderlake.engine.records import Label

_LABELS: Final = """
SELECT address, name, entity_id, is_cex, is_dex, is_contract, is_paid_label
FROM labels
WHERE address IN (SELECT value FROM json_each(:wanted))
ORDER BY address, (chain = coalesce(:chain, chain)) DESC, precedence DESC, chain, source
"""

_LABELS_OF_ONE: Final = """
SELECT address, chain, source, name, entity_id, is_cex, is_dex, is_contract, is_paid_label, precedence
FROM labels
WHERE address = ?
ORDER BY precedence DESC, chain, source
"""

_MARKED: Final = """
SELECT address, max(is_cex), max(is_dex), max(is_contract)
FROM (
    SELECT address, is_cex, is_dex, is_contract FROM labels
    UNION ALL
    SELECT address, 0, 0, 1 FROM tokens
)
GROUP BY address
"""

_CONTRACTS_OF_TOKENS: Final = """
SELECT DISTINCT address FROM tokens WHERE address IN (SELECT value FROM json_each(:wanted))
"""


@dataclass(frozen=True)
class AddressLabel:
    """All labels of an address as one: the name of highest precedence, kinds added up."""

    name: str | None = None
    entity_id: str | None = None
    is_cex: bool = False
    is_dex: bool = False
    is_contract: bool = False
    is_paid_label: bool = False


UNLABELLED: Final = AddressLabel()


def merged_labels(catalog: sqlite3.Connection, addresses: Sequence[str], chain: str | None) -> dict[str, AddressLabel]:
    """One label for each address that has any.

    The name comes from a label of ``chain`` if there is one, else of any chain, by falling precedence. A token's own
    contract and a burn address are contracts whether a label says so or not.
    """
    wanted = json.dumps(list(addresses))
    merged: dict[str, AddressLabel] = {}
    for address, *of_source in catalog.execute(_LABELS, {"wanted": wanted, "chain": chain}):
        merged[address] = _merge(
            merged.get(address, UNLABELLED), AddressLabel(*of_source[:2], *map(bool, of_source[2:]))
        )
    token_contracts = {address for (address,) in catalog.execute(_CONTRACTS_OF_TOKENS, {"wanted": wanted})}
    for address in token_contracts | (BURN_ADDRESSES & set(addresses)):
        merged[address] = _merge(merged.get(address, UNLABELLED), AddressLabel(is_contract=True))
    return merged


def marked_addresses(catalog: sqlite3.Connection) -> dict[str, AddressLabel]:
    """The kinds of all addresses that a label, a token or a burn makes known, without their names."""
    marked = {
        address: AddressLabel(is_cex=bool(is_cex), is_dex=bool(is_dex), is_contract=bool(is_contract))
        for address, is_cex, is_dex, is_contract in catalog.execute(_MARKED)
    }
    for address in BURN_ADDRESSES:
        marked[address] = _merge(marked.get(address, UNLABELLED), AddressLabel(is_contract=True))
    return marked


def labels_of(catalog: sqlite3.Connection, address: str) -> list[Label]:
    """What each source says of an address, as it was stored, by falling precedence, then chain and source."""
    return [_label(row) for row in catalog.execute(_LABELS_OF_ONE, (address,))]


def _label(row: Sequence[Any]) -> Label:
    address, chain, source, name, entity_id, is_cex, is_dex, is_contract, is_paid_label, precedence = row
    return Label(
        address=address,
        chain=chain or None,
        source=source,
        name=name,
        entity_id=entity_id,
        is_cex=bool(is_cex),
        is_dex=bool(is_dex),
        is_contract=bool(is_contract),
        is_paid_label=bool(is_paid_label),
        precedence=precedence,
    )


def _merge(first: AddressLabel, other: AddressLabel) -> AddressLabel:
    """The first names the address; kinds add up. The label that gives the name says whether it is a paid one."""
    named = first if first.name else other
    return AddressLabel(
        name=named.name,
        entity_id=first.entity_id or other.entity_id,
        is_cex=first.is_cex or other.is_cex,
        is_dex=first.is_dex or other.is_dex,
        is_contract=first.is_contract or other.is_contract,
        is_paid_label=named.is_paid_label,
    )
