"""What the engine knows of single addresses, for tests of its counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from holderlake.core.contract.times import to_unix
from holderlake.engine.files.dictionary import UNKNOWN
from holderlake.engine.queries.addresses import NEVER, activity
from holderlake.engine.store.store import Store


@dataclass(frozen=True)
class AddressFacts:
    """Counterparties, senders, receivers, transfers and first transfer (unix seconds) of an address at an instant."""

    degree: int = 0
    inward_relations: int = 0
    outward_relations: int = 0
    transfers: int = 0
    first_time: int | None = None


def address_facts(store: Store, addresses: Sequence[str], as_of: datetime) -> dict[str, AddressFacts]:
    view = store.view()
    numbers = view.dictionary.find(list(addresses))
    numbers[numbers == UNKNOWN] = view.dictionary.size
    found = activity(view, numbers, np.full(len(numbers), to_unix(as_of)))
    rows = zip(found.relations.tolist(), found.transfers.tolist(), found.first_times.tolist(), strict=True)
    return {
        address: AddressFacts(*relations, transfers, None if first == NEVER else first)
        for address, (relations, transfers, first) in zip(addresses, rows, strict=True)
    }
