"""Which block a second belongs to, found by looking at few blocks."""

from __future__ import annotations

from typing import Final

from holderlake.engine.sources.rpc.client.messages import number
from holderlake.engine.sources.rpc.client.node import Node

_LOOKS: Final = 16
"""Blocks looked at in one batch: seven batches find one of 100 million."""


async def first_block_from(node: Node, second: int, head: int) -> int:
    """The first block at or after a second (unix), ``head + 1`` where there is none. Raises ``RpcError``."""
    low, high = 0, head + 1  # every block before low is earlier, no block from high on is
    while low < high:
        step = max(1, (high - low) // _LOOKS)
        looks = list(range(low, high, step))
        headers = await node.headers(looks)
        earlier = [block for block in looks if number(headers[block].timestamp) < second]
        later = [block for block in looks if number(headers[block].timestamp) >= second]
        low = max(earlier) + 1 if earlier else low
        high = min(later) if later else high
        if not later and step == 1:
            break
    return low
