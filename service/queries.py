"""Parameters as they come in a path or a query, where everything is text and a chain must be one of ours.

Their names, defaults and bounds are the contract's.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, HTTPException, Query, Request
from starlette.concurrency import run_in_threadpool

from contract.models import Address, ChainId, TokenKey
from contract.requests import HoldersOptions, MapOptions
from engine.store import Store
from engine.tokens import SERVED_CHAINS
from service.backend import BackendOfCall
from service.errors import invalid_request


async def clear_target(request: Request) -> None:
    """Refuses what two readers could understand in two ways: a parameter twice, a query that is no text, a path that
    the framework takes for another one.
    """
    if request.scope["path"].endswith("\n"):
        raise HTTPException(404)
    query: bytes = request.scope["query_string"]
    if not query:
        return
    try:
        given = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise invalid_request(("query",), "Input should be percent-encoded UTF-8", "encoding") from error
    repeated = [name for name, times in Counter(name for name, _ in given).items() if times > 1]
    if repeated:
        raise invalid_request(("query", repeated[0]), "Input should be given once", "repeated")


def chains_of(store: Store) -> tuple[str, ...]:
    """The chains that tokens can be asked about: those that are served, and those that the store has tokens of."""
    return tuple(dict.fromkeys((*SERVED_CHAINS, *store.chains())))


async def _token_of_path(backend: BackendOfCall, chain: ChainId, token_address: Address) -> TokenKey:
    if chain not in SERVED_CHAINS:
        chains = await run_in_threadpool(chains_of, backend.store)
        if chain not in chains:
            raise invalid_request(("path", "chain"), f"Input should be one of {', '.join(chains)}", "enum")
    return TokenKey(chain=chain, address=token_address)


PathToken = Annotated[TokenKey, Depends(_token_of_path)]
MapQuery = Annotated[MapOptions, Query()]
HoldersQuery = Annotated[HoldersOptions, Query()]
