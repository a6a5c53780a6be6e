"""Parameters as they come in a path or a query, where everything is text and a chain must be one of ours.

Their names, defaults and bounds are the contract's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, HTTPException, Query, Request
from starlette.concurrency import run_in_threadpool

from holderlake.contract.models import Address, ChainId, TokenKey
from holderlake.contract.requests import HoldersOptions, MapOptions
from holderlake.engine.queries.tokens import SERVED_CHAINS
from holderlake.engine.store.store import Store
from holderlake.service.api.backend import Backend
from holderlake.service.errors import UNKNOWN_FIELD, invalid_request


async def reject_ambiguous_target(request: Request) -> None:
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
        raise invalid_request(("query",), "Must be percent-encoded UTF-8", "encoding") from error
    repeated = [name for name, times in Counter(name for name, _ in given).items() if times > 1]
    if repeated:
        raise invalid_request(("query", repeated[0]), "Must be given once", "repeated")


def supported_chains(store: Store) -> tuple[str, ...]:
    """The chains that tokens can be asked about: those that are served, and those that the store has tokens of."""
    return tuple(dict.fromkeys((*SERVED_CHAINS, *store.chains())))


async def check_tokens(backend: Backend, tokens: Mapping[tuple[str | int, ...], TokenKey]) -> None:
    """Refuse tokens of a body, given by their place, that have an unknown chain or unknown fields (422)."""
    for place, token in tokens.items():
        for name in token.model_extra or ():
            raise invalid_request((*place, name), UNKNOWN_FIELD, "extra_forbidden")
        await _check_chain(backend, (*place, "chain"), token.chain)


async def _check_chain(backend: Backend, place: tuple[str | int, ...], chain: str) -> None:
    if chain not in SERVED_CHAINS:
        chains = await run_in_threadpool(supported_chains, backend.store)
        if chain not in chains:
            raise invalid_request(place, f"Must be one of {', '.join(chains)}", "enum")


async def _path_token(request: Request, chain: ChainId, token_address: Address) -> TokenKey:
    await _check_chain(request.app.state.backend, ("path", "chain"), chain)
    return TokenKey(chain=chain, address=token_address)


PathToken = Annotated[TokenKey, Depends(_path_token)]
MapQuery = Annotated[MapOptions, Query()]
HoldersQuery = Annotated[HoldersOptions, Query()]
