"""Labels of addresses in the catalogue, and the merge of all labels of an address into one.

``sources.labels`` reads label files.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holderlake.contract.chains import BURN_ADDRESSES
from holderlake.engine.catalog.tokens import execute_all
from holderlake.engine.records import Label

_COLUMNS: Final = "address, chain, source, name, entity_id, is_cex, is_dex, is_contract, is_paid_label, precedence"
_SAVE: Final = f"""
INSERT INTO labels ({_COLUMNS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (address, chain, source) DO UPDATE SET
    name = excluded.name,
    entity_id = excluded.entity_id,
    is_cex = excluded.is_cex,
    is_dex = excluded.is_dex,
    is_contract = excluded.is_contract,
    is_paid_label = excluded.is_paid_label,
    precedence = excluded.precedence
WHERE (name, entity_id, is_cex, is_dex, is_contract, is_paid_label, precedence) IS NOT (
    excluded.name, excluded.entity_id, excluded.is_cex, excluded.is_dex, excluded.is_contract,
    excluded.is_paid_label, excluded.precedence
)
"""
_OF_ADDRESSES: Final = """
SELECT address, name, entity_id, is_cex, is_dex, is_contract, is_paid_label
FROM labels
WHERE address IN (SELECT value FROM json_each(:addresses))
ORDER BY address, (chain IN (:chain, '') OR :chain IS NULL) DESC, precedence DESC, (chain = :chain) DESC, chain, source
"""
_OF_ONE: Final = f"SELECT {_COLUMNS} FROM labels WHERE address = ? ORDER BY precedence DESC, chain, source"
_KINDS: Final = """
SELECT address, max(is_cex), max(is_dex), max(is_contract)
FROM (
    SELECT address, is_cex, is_dex, is_contract FROM labels
    UNION ALL
    SELECT address, 0, 0, 1 FROM tokens
)
GROUP BY address
"""
_CONTRACTS: Final = """
SELECT DISTINCT address FROM tokens WHERE address IN (SELECT value FROM json_each(:addresses))
"""


@dataclass(frozen=True)
class AddressLabel:
    """The merged label of an address. ``name`` is that of the label with the highest precedence.

    The kinds ``is_cex``, ``is_dex`` and ``is_contract`` are True if any label of the address has them.
    ``is_paid_label`` belongs to the label that gave the name.
    """

    name: str | None = None
    entity_id: str | None = None
    is_cex: bool = False
    is_dex: bool = False
    is_contract: bool = False
    is_paid_label: bool = False


UNLABELLED: Final = AddressLabel()
_CONTRACT: Final = AddressLabel(is_contract=True)


def save_labels(catalog: sqlite3.Connection, labels: Iterable[Label]) -> bool:
    """Store labels. Return True if stored data changed.

    If several labels have the same address, chain and source, the last one is stored.
    """
    rows = {
        (label.address, label.chain or "", label.source): (
            *(label.address, label.chain or "", label.source, label.name, label.entity_id),
            *(label.is_cex, label.is_dex, label.is_contract, label.is_paid_label, label.precedence),
        )
        for label in labels
    }
    return execute_all(catalog, _SAVE, rows.values())


def merged_labels(catalog: sqlite3.Connection, addresses: Sequence[str], chain: str | None) -> dict[str, AddressLabel]:
    """Return the merged label of each address that has labels, by address.

    Labels of ``chain`` and of all chains come first, then those of other chains, both by descending precedence. The
    first label with a name gives the name. Token contracts and burn addresses count as contracts even without a label.
    """
    parameters = {"addresses": json.dumps(list(addresses)), "chain": chain}
    label_of: dict[str, AddressLabel] = {}
    for address, name, entity_id, *flags in catalog.execute(_OF_ADDRESSES, parameters):
        label = AddressLabel(name, entity_id, *map(bool, flags))
        label_of[address] = _merge(label_of.get(address, UNLABELLED), label)
    token_contracts = {address for (address,) in catalog.execute(_CONTRACTS, parameters)}
    for address in token_contracts | (BURN_ADDRESSES & set(addresses)):
        label_of[address] = _merge(label_of.get(address, UNLABELLED), _CONTRACT)
    return label_of


def marked_addresses(catalog: sqlite3.Connection) -> dict[str, AddressLabel]:
    """Return the kinds of all labelled addresses, token contracts and burn addresses, by address. Names are left
    out."""
    marked = {
        address: AddressLabel(is_cex=bool(is_cex), is_dex=bool(is_dex), is_contract=bool(is_contract))
        for address, is_cex, is_dex, is_contract in catalog.execute(_KINDS)
    }
    for address in BURN_ADDRESSES:
        marked[address] = _merge(marked.get(address, UNLABELLED), _CONTRACT)
    return marked


def labels_of(catalog: sqlite3.Connection, address: str) -> list[Label]:
    """Return the stored labels of an address by descending precedence, then chain and source."""
    return [_label(row) for row in catalog.execute(_OF_ONE, (address,))]


def _label(row: Sequence[Any]) -> Label:
    address, chain, source, name, entity_id, is_cex, is_dex, is_contract, is_paid_label, precedence = row
    kinds = {"is_cex": bool(is_cex), "is_dex": bool(is_dex), "is_contract": bool(is_contract)}
    is_paid = bool(is_paid_label)
    return Label(address, chain or None, source, name, entity_id, **kinds, is_paid_label=is_paid, precedence=precedence)


def _merge(preferred: AddressLabel, fallback: AddressLabel) -> AddressLabel:
    """Merge two labels. The name and ``is_paid_label`` are from ``preferred`` if it has a name, else from
    ``fallback``.

    ``entity_id`` is that of ``preferred``, or else that of ``fallback``. A kind is True if one of the two
    labels has it.
    """
    name_label = preferred if preferred.name else fallback
    return AddressLabel(
        name=name_label.name,
        entity_id=preferred.entity_id or fallback.entity_id,
        is_cex=preferred.is_cex or fallback.is_cex,
        is_dex=preferred.is_dex or fallback.is_dex,
        is_contract=preferred.is_contract or fallback.is_contract,
        is_paid_label=name_label.is_paid_label,
    )
