"""Find the first block at or after a time, with few requests."""

from __future__ import annotations

from typing import Final

from holderlake.engine.sources.rpc.client.messages import number
from holderlake.engine.sources.rpc.client.node import Node

_LOOKS: Final = 16
"""Number of blocks that one batch of requests examines. Seven batches find one block among 100 million."""


async def first_block_from(node: Node, second: int, head: int) -> int:
    """Return the first block at or after a unix second; ``head + 1`` if all blocks up to ``head`` are earlier.

    Raises ``RpcError``.
    """
    low, high = 0, head + 1  # blocks before low are earlier, blocks from high on are not
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
