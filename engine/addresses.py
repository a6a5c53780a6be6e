"""What the engine knows of addresses: relations and age from the transfers, kind and name from the labels.

An address is judged over all chains and tokens of the store, for it is the same wallet everywhere. Transfers of nothing
are left out: anyone can make one between any two addresses, so they say nothing of either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from contract.tables import TABLES, build
from contract.times import from_unix, to_unix
from engine.labels import UNLABELLED, AddressLabel
from engine.records import Rules
from engine.store import Store

_ACTIVITY: Final = """
WITH wanted AS (
    SELECT unnest($addresses) AS address
),
moved AS (
    SELECT from_address, to_address, block_time
    FROM read_parquet($files)
    WHERE block_time <= $as_of AND value <> '0'
),
touches AS (
    SELECT from_address AS address, to_address AS counterparty, false AS inward, block_time
    FROM moved SEMI JOIN wanted ON from_address = wanted.address
    UNION ALL
    SELECT to_address, from_address, true, block_time
    FROM moved SEMI JOIN wanted ON to_address = wanted.address
)
SELECT
    address,
    count(DISTINCT counterparty) FILTER (counterparty <> address) AS degree,
    count(DISTINCT counterparty) FILTER (counterparty <> address AND inward) AS inward_relations,
    count(DISTINCT counterparty) FILTER (counterparty <> address AND NOT inward) AS outward_relations,
    count(*) FILTER (counterparty <> address OR NOT inward) AS transfers,
    min(block_time) AS first_time
FROM touches
GROUP BY address
"""


@dataclass(frozen=True)
class AddressFacts:
    """An address as of an instant. ``transfers`` counts each transfer once; ``first_time`` is in unix seconds."""

    degree: int = 0
    inward_relations: int = 0
    outward_relations: int = 0
    transfers: int = 0
    first_time: int | None = None
    label: AddressLabel = UNLABELLED

    def is_supernode(self, rules: Rules) -> bool:
        """Has very many counterparties."""
        return self.degree >= rules.supernode_degree

    def is_shown(self, rules: Rules) -> bool:
        """Belongs on a map: no exchange, contract or hypernode (seed, section 2.6)."""
        label = self.label
        return not (label.is_cex or label.is_dex or label.is_contract or self.transfers > rules.hypernode_transfers)

    def details(self, rules: Rules) -> dict[str, Any]:
        """The contract's address details, as columns."""
        return {
            "degree": self.degree,
            "inward_relations": self.inward_relations,
            "outward_relations": self.outward_relations,
            "is_supernode": self.is_supernode(rules),
            "is_contract": self.label.is_contract,
            "is_cex": self.label.is_cex,
            "is_dex": self.label.is_dex,
            "label": self.label.name,
            "entity_id": self.label.entity_id,
            "first_activity_date": None if self.first_time is None else from_unix(self.first_time),
            "is_paid_label": self.label.is_paid_label,
        }


def address_facts(
    store: Store, addresses: Sequence[str], as_of: datetime, chain: str | None = None
) -> dict[str, AddressFacts]:
    """Facts of each address, those without any transfer included. Labels of ``chain`` name an address first."""
    labels = store.labels(addresses, chain)
    rows = store.query(_ACTIVITY, {"addresses": list(addresses), "as_of": to_unix(as_of)}).to_pylist()
    active = {row.pop("address"): row for row in rows}
    return {
        address: AddressFacts(label=labels.get(address, UNLABELLED), **active.get(address, {})) for address in addresses
    }


def addresses_table(store: Store, addresses: Sequence[str], as_of: datetime, chain: str | None = None) -> pa.Table:
    """The lake's ``addresses`` rows of the addresses, in the order asked for."""
    facts = address_facts(store, addresses, as_of, chain)
    rows = [
        {"chain": chain or "", "as_of": as_of, "address": address, **facts[address].details(store.rules)}
        for address in addresses
    ]
    return build(TABLES["addresses"], rows)
