"""Labels of addresses in the catalogue, and the merge of all labels of an address into one.

``sources.labels`` reads label files.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holderlake.core.contract.chains import BURN_ADDRESSES
from holderlake.engine.catalog.tokens import execute_all
from holderlake.engine.records import Label

_FACTS: Final = "name, entity_id, is_cex, is_dex, is_contract, is_paid_label, precedence"
_COLUMNS: Final = f"address, chain, source, valid_from, {_FACTS}, valid_to"
_EXCLUDED: Final = ", ".join(f"excluded.{name}" for name in _FACTS.split(", "))
_SAVE: Final = f"""
INSERT INTO labels ({_COLUMNS}, is_latest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (address, chain, source, valid_from) DO UPDATE
SET ({_FACTS}, valid_to, is_latest) = ({_EXCLUDED}, excluded.valid_to, excluded.is_latest)
WHERE ({_FACTS}, valid_to, is_latest) IS NOT ({_EXCLUDED}, excluded.valid_to, excluded.is_latest)
"""
_REMOVE: Final = """
DELETE FROM labels
WHERE address = ? AND chain = ? AND source = ? AND valid_from NOT IN (SELECT value FROM json_each(?))
"""
_IS_VALID: Final = """
CASE WHEN :at IS NULL THEN is_latest ELSE valid_from <= :at AND (valid_to IS NULL OR valid_to >= :at) END
"""
"""Whether a label counts at the unix second ``at``; without ``at``, whether it is the last one of its source."""
_HAS_PERIOD: Final = "(valid_from > 0 OR valid_to IS NOT NULL)"
_OF_CHAIN: Final = "(:chain IS NULL OR chain IN (:chain, ''))"
"""Whether a row holds on ``chain``; '' means the rows of all chains alone, and None any row."""
_OF_ADDRESSES: Final = f"""
SELECT address, name, entity_id, is_cex, is_dex, is_contract, is_paid_label
FROM labels
WHERE address IN (SELECT value FROM json_each(:addresses)) AND {_OF_CHAIN} AND {_IS_VALID}
ORDER BY address, precedence DESC, (chain = :chain) DESC, chain, source
"""
_OF_ONE: Final = f"SELECT {_COLUMNS} FROM labels WHERE address = ? ORDER BY precedence DESC, chain, source, valid_from"
_KINDS: Final = f"""
SELECT address, max(is_cex), max(is_dex), max(is_contract)
FROM (
    SELECT address, is_cex, is_dex, is_contract FROM labels WHERE NOT {_HAS_PERIOD} AND {_OF_CHAIN}
    UNION ALL
    SELECT address, 0, 0, 1 FROM tokens WHERE {_OF_CHAIN}
)
GROUP BY address
"""
_KINDS_OF_PERIODS: Final = f"""
SELECT address, max(is_cex), max(is_dex), max(is_contract)
FROM labels
WHERE {_HAS_PERIOD} AND {_OF_CHAIN} AND {_IS_VALID}
GROUP BY address
"""
_LABELLED: Final = """
SELECT chain, address FROM labels
UNION
SELECT chain, address FROM tokens
ORDER BY 1, 2
"""
_WITH_PERIODS: Final = f"SELECT DISTINCT address FROM labels WHERE {_HAS_PERIOD}"
_PERIOD_STARTS: Final = """
SELECT valid_from FROM labels WHERE valid_from > 0
UNION
SELECT valid_to + 1 FROM labels WHERE valid_to IS NOT NULL
ORDER BY 1
"""
_CONTRACTS: Final = f"""
SELECT DISTINCT address FROM tokens WHERE address IN (SELECT value FROM json_each(:addresses)) AND {_OF_CHAIN}
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

    The labels of an address, chain and source replace all earlier ones. A period ends where the next one of the source
    begins. If several begin at the same second, the last one is stored.
    """
    periods: dict[tuple[str, str, str], dict[int, Label]] = {}
    for label in labels:
        periods.setdefault((label.address, label.chain or "", label.source), {})[label.valid_from or 0] = label
    rows = (
        (
            *(*key, start, label.name, label.entity_id, label.is_cex, label.is_dex, label.is_contract),
            *(label.is_paid_label, label.precedence, _end(label, next_start), next_start is None),
        )
        for key, of_key in periods.items()
        for (start, label), next_start in zip(sorted(of_key.items()), [*sorted(of_key)[1:], None], strict=True)
    )
    has_saved = execute_all(catalog, _SAVE, rows)
    removed = ((*key, json.dumps(list(of_key))) for key, of_key in periods.items())
    return execute_all(catalog, _REMOVE, removed) or has_saved


def _end(label: Label, next_start: int | None) -> int | None:
    """Return the last second of a label's period, given the beginning of the next one."""
    if next_start is None or (label.valid_to is not None and label.valid_to < next_start):
        return label.valid_to
    return next_start - 1


def merged_labels(
    catalog: sqlite3.Connection, addresses: Sequence[str], chain: str | None, at: int | None = None
) -> dict[str, AddressLabel]:
    """Return the merged label of each address that has labels, by address.

    ``at`` is the unix second whose labels count; None means the last ones of each source. A label of one chain holds
    on that chain only. ``chain`` '' means labels of all chains alone, None means every label. The label with a name and
    the highest precedence gives the name. Token contracts (on their chain) and burn addresses count as contracts even
    without a label.
    """
    parameters = {"addresses": json.dumps(list(addresses)), "chain": chain, "at": at}
    label_of: dict[str, AddressLabel] = {}
    for address, name, entity_id, *flags in catalog.execute(_OF_ADDRESSES, parameters):
        label = AddressLabel(name, entity_id, *map(bool, flags))
        label_of[address] = _merge(label_of.get(address, UNLABELLED), label)
    token_contracts = {address for (address,) in catalog.execute(_CONTRACTS, parameters)}
    for address in token_contracts | (BURN_ADDRESSES & set(addresses)):
        label_of[address] = _merge(label_of.get(address, UNLABELLED), _CONTRACT)
    return label_of


def marked_addresses(catalog: sqlite3.Connection) -> dict[str, AddressLabel]:
    """Return the kinds of all labelled addresses, token contracts and burn addresses, by address. Names are left out.

    The labels of every chain count; of those with a period, the last one of each source.
    """
    marked = marked_always(catalog, None)
    for address, label in marked_in_period(catalog, None, None).items():
        marked[address] = _merge(marked.get(address, UNLABELLED), label)
    return marked


def marked_always(catalog: sqlite3.Connection, chain: str | None) -> dict[str, AddressLabel]:
    """Return the kinds on a chain as ``marked_addresses`` does, but of labels without a period only."""
    marked = _kinds(catalog, _KINDS, {"chain": chain})
    for address in BURN_ADDRESSES:
        marked[address] = _merge(marked.get(address, UNLABELLED), _CONTRACT)
    return marked


def marked_in_period(catalog: sqlite3.Connection, chain: str | None, at: int | None) -> dict[str, AddressLabel]:
    """Return the kinds that labels with a period give on a chain at a unix second, by address, without names.

    None means the last label of each source.
    """
    return _kinds(catalog, _KINDS_OF_PERIODS, {"chain": chain, "at": at})


def labelled_addresses(catalog: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the labelled addresses and token contracts by chain, sorted, and with '' those of all chains."""
    addresses: dict[str, list[str]] = {"": sorted(BURN_ADDRESSES)}
    for chain, address in catalog.execute(_LABELLED):
        addresses.setdefault(chain, []).append(address)
    return {chain: sorted({*of_chain}) for chain, of_chain in addresses.items()}


def addresses_with_periods(catalog: sqlite3.Connection) -> set[str]:
    """Return the addresses of labels with a period."""
    return {address for (address,) in catalog.execute(_WITH_PERIODS)}


def period_starts(catalog: sqlite3.Connection) -> list[int]:
    """Return the unix seconds at which a label begins or no longer counts, ascending."""
    return [second for (second,) in catalog.execute(_PERIOD_STARTS)]


def _kinds(catalog: sqlite3.Connection, sql: str, parameters: dict[str, str | int | None]) -> dict[str, AddressLabel]:
    return {
        address: AddressLabel(is_cex=bool(is_cex), is_dex=bool(is_dex), is_contract=bool(is_contract))
        for address, is_cex, is_dex, is_contract in catalog.execute(sql, parameters)
    }


def labels_of(catalog: sqlite3.Connection, address: str) -> list[Label]:
    """Return the stored labels of an address by descending precedence, then chain and source."""
    return [_label(row) for row in catalog.execute(_OF_ONE, (address,))]


def _label(row: Sequence[Any]) -> Label:
    address, chain, source, valid_from, name, entity_id, *flags, precedence, valid_to = row
    is_cex, is_dex, is_contract, is_paid = map(bool, flags)
    kinds, period = (is_cex, is_dex, is_contract), (valid_from or None, valid_to)
    return Label(address, chain or None, source, name, entity_id, *kinds, is_paid, precedence, *period)


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
