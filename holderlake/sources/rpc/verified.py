"""The newest check of each token against a node, in the store's file ``verified.parquet``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holderlake.core.storage.atomic_files import whole_file
from holderlake.core.storage.locks import locked
from holderlake.sources.rpc.checkpoints import ALL_TOKENS

if TYPE_CHECKING:
    from holderlake.sources.rpc.verify import NodeCheck

VERIFIED: Final = pa.schema(
    [
        pa.field("chain", pa.string(), nullable=False),
        pa.field("token_address", pa.string(), nullable=False),
        pa.field("is_complete", pa.bool_(), nullable=False),
        pa.field("balances", pa.string(), nullable=False),
        pa.field("first_block", pa.int64(), nullable=False),
        pa.field("last_block", pa.int64(), nullable=False),
        pa.field("as_of", pa.timestamp("us"), nullable=False),
        pa.field("checked_at", pa.timestamp("us"), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("blocks", pa.int64(), nullable=False),
        pa.field("events", pa.int64(), nullable=False),
        pa.field("missing_rows", pa.int64(), nullable=False),
        pa.field("extra_rows", pa.int64(), nullable=False),
        pa.field("unread_blocks", pa.int64(), nullable=False),
        pa.field("first_difference", pa.int64()),
        pa.field("last_difference", pa.int64()),
    ]
)
"""Columns of the file, one row for each token.

``balances`` is equal, different (the token changes balances without transfers) or unknown (not asked, or no answer).
``as_of`` is the time of ``last_block``; both times are UTC. ``source`` is the host of the node. ``blocks`` are those
whose events were compared, less than all if the check took samples. ``events`` are those of all tokens of the check.
The last two columns are the blocks of the first and last difference, null if there is none.
"""
_FILE: Final = "verified.parquet"


def read_verified(root: Path) -> pa.Table:
    """Return the newest check of each token of the store ``root`` (schema ``VERIFIED``)."""
    path = root / _FILE
    return pq.read_table(path, schema=VERIFIED) if path.exists() else VERIFIED.empty_table()


def record(root: Path, check: NodeCheck, checked_at: datetime) -> None:
    """Keep a check (made at ``checked_at``, naive UTC) in the file, in place of earlier ones of the same tokens.

    A check without any imported block is not kept.
    """
    if check.as_of is None:
        return
    rows = [_row(check, token) | {"checked_at": checked_at} for token in check.tokens]
    with locked(root / f".{_FILE}.lock"):
        recorded = read_verified(root)
        is_replaced = pc.and_(
            pc.equal(recorded["chain"], check.chain), pc.is_in(recorded["token_address"], pa.array(check.tokens))
        )
        table = pa.concat_tables([recorded.filter(pc.invert(is_replaced)), pa.Table.from_pylist(rows, VERIFIED)])
        with whole_file(root / _FILE) as path:
            pq.write_table(table, path)


def _row(check: NodeCheck, token: str) -> dict[str, Any]:
    wrong = [difference for difference in check.differences if difference.token == token]
    unread = sum(gap.last - gap.first + 1 for gap in check.unread if gap.token in {token, ALL_TOKENS})
    return {
        "chain": check.chain,
        "token_address": token,
        "is_complete": not (wrong or unread),
        "balances": _balances(check, token),
        "first_block": check.first,
        "last_block": check.last,
        "as_of": check.as_of,
        "source": check.source,
        "blocks": check.blocks,
        "events": check.events,
        "missing_rows": sum(difference.missing for difference in wrong),
        "extra_rows": sum(difference.extra for difference in wrong),
        "unread_blocks": unread,
        "first_difference": min((difference.first for difference in wrong), default=None),
        "last_difference": max((difference.last for difference in wrong), default=None),
    }


def _balances(check: NodeCheck, token: str) -> str:
    if token in check.equal:
        return "equal"
    return "different" if any(drift.token == token for drift in check.drifts) else "unknown"
