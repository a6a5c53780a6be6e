"""Imports from a node as a test wants it: impatient, and in small steps."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import SecretStr

from holderlake.engine.store.store import Store
from holderlake.sources.rpc.node import Node
from holderlake.sources.rpc.run import ChainImport, NodeReport, ReadOptions, Selection
from tests.helpers.processes import PATIENCE


def import_chain(
    store: Store,
    *urls: str,
    chain: str = "test",
    evm_id: int | None = None,
    timeout: float = PATIENCE,
    kind: type[Node] = Node,
    **chosen: Any,
) -> NodeReport:
    """Imports what ``chosen`` says: fields of a wish and of manners."""
    wished = {name: value for name, value in chosen.items() if name in Selection.__dataclass_fields__}
    manners = {"confirmations": 0} | {name: value for name, value in chosen.items() if name not in wished}

    async def run() -> NodeReport:
        addresses = [SecretStr(url) for url in urls]
        async with kind(addresses, evm_id, timeout=timeout, attempts=3, first_wait=0.01) as node:
            return await ChainImport(store, node, chain, Selection(**wished), ReadOptions(**manners)).run()

    return asyncio.run(run())
