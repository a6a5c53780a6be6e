"""Corrections: what balances read from a contract at chosen instants differ from the sums of a token's transfers.

A token that rebases changes balances without transfers. At an instant at which all its balances were read, each
difference is stored as a mint or burn that is no transfer. So holders and supply are exact at the end of that second.
From there on transfers add up, until the contract changes balances again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.engine.records import TRANSFERS, Key

CORRECTIONS: Final = "corrections"
"""``source`` of the rows."""
_LOG_INDEX: Final = -2
"""An opening balance of the same block has -1."""


@dataclass(frozen=True)
class Instant:
    """A block, and its time in unix seconds, after which all balances of a token were read."""

    block: int
    second: int


def correction_rows(key: Key, instant: Instant, changes: Mapping[str, int]) -> pa.Table:
    """Return the changes of balances (raw integers by address) at an instant as rows of ``TRANSFERS``.

    A row without value records the instant if nothing changes.
    """
    signed = [(address, change) for address, change in sorted(changes.items()) if change] or [(ZERO_ADDRESS, 0)]
    count = len(signed)
    constants = {
        "chain": key[0],
        "token_address": key[1],
        "token_standard": "erc20",
        "block_number": instant.block,
        "block_time": instant.second,
        "token_id": None,
        "tx_hash": None,
        "log_index": _LOG_INDEX,
        "time_kind": "exact",
        "log_index_kind": "opening",  # the cluster counts such rows in balances, and not as transfers
        "source": CORRECTIONS,
    }
    columns = {
        name: pa.repeat(pa.scalar(value, TRANSFERS.field(name).type), count) for name, value in constants.items()
    }
    columns["from_address"] = pa.array([ZERO_ADDRESS if change >= 0 else address for address, change in signed])
    columns["to_address"] = pa.array([address if change >= 0 else ZERO_ADDRESS for address, change in signed])
    columns["value"] = pa.array([str(abs(change)) for _, change in signed])
    return pa.table([columns[name] for name in TRANSFERS.names], TRANSFERS)
