"""Parameters as they come in a path or a query, where everything is text and a chain must be one of ours.

Their names, defaults and bounds are the contract's.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query
from starlette.concurrency import run_in_threadpool

from contract.models import Address, ChainId, TokenKey
from contract.requests import HoldersOptions, MapOptions
from engine.tokens import SERVED_CHAINS
from service.backend import BackendOfCall
from service.errors import invalid_request


async def _token_of_path(backend: BackendOfCall, chain: ChainId, token_address: Address) -> TokenKey:
    if chain not in SERVED_CHAINS:
        own = await run_in_threadpool(backend.store.chains)
        if chain not in own:
            known = ", ".join(dict.fromkeys((*SERVED_CHAINS, *own)))
            raise invalid_request(("path", "chain"), f"Input should be one of {known}", "enum")
    return TokenKey(chain=chain, address=token_address)


PathToken = Annotated[TokenKey, Depends(_token_of_path)]
MapQuery = Annotated[MapOptions, Query()]
HoldersQuery = Annotated[HoldersOptions, Query()]
