"""Parameters in paths, queries and bodies, read strictly: no two parsers can understand a request differently.

Names, defaults and bounds of the parameters are in ``contract.requests``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, HTTPException, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from holderlake.core.contract.chains import SERVED_CHAINS
from holderlake.core.contract.models import Address, ChainId, TokenKey
from holderlake.core.contract.requests import HoldersOptions, MapOptions
from holderlake.engine.catalog.tokens import read_chains
from holderlake.engine.store.store import Store
from holderlake.service.api.backend import Backend
from holderlake.service.errors import UNKNOWN_FIELD, invalid_request


async def reject_ambiguous_target(request: Request) -> None:
    """Raise an error for a path or query that two parsers may read differently.

    These are repeated parameters, a query that is not UTF-8 (422), and a path that ends in a line feed, which the
    framework drops (404).
    """
    if request.scope["path"].endswith("\n"):
        raise HTTPException(404)
    query: bytes = request.scope["query_string"]
    if not query:
        return
    try:
        parameters = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise invalid_request(("query",), "The query must be percent-encoded UTF-8", "encoding") from error
    repeated = [name for name, times in Counter(name for name, _ in parameters).items() if times > 1]
    if repeated:
        raise invalid_request(("query", repeated[0]), "The parameter must be given only once", "repeated")


def supported_chains(store: Store) -> tuple[str, ...]:
    """Return the chains of the contract, and then the other chains that have tokens in the store."""
    return tuple(dict.fromkeys((*SERVED_CHAINS, *store.read(read_chains))))


async def check_tokens(backend: Backend, tokens: Mapping[tuple[str | int, ...], TokenKey]) -> None:
    """Raise a 422 if a token of a request body has an unknown chain or unknown fields.

    The keys of ``tokens`` are the tokens' paths in the body, for example ``("body", 0)``. The error names the path.
    """
    for place, token in tokens.items():
        for name in token.model_extra or ():
            raise invalid_request((*place, name), UNKNOWN_FIELD, "extra_forbidden")
        await _check_chain(backend, (*place, "chain"), token.chain)


async def _check_chain(backend: Backend, place: tuple[str | int, ...], chain: str) -> None:
    if chain not in SERVED_CHAINS:
        chains = await run_in_threadpool(supported_chains, backend.store)
        if chain not in chains:
            raise invalid_request(place, f"The chain must be one of {', '.join(chains)}", "enum")


async def _path_token(request: Request, chain: ChainId, token_address: Address) -> TokenKey:
    await _check_chain(request.app.state.backend, ("path", "chain"), chain)
    return TokenKey(chain=chain, address=token_address)


PathToken = Annotated[TokenKey, Depends(_path_token)]
MapQuery = Annotated[MapOptions, Query()]
HoldersQuery = Annotated[HoldersOptions, Query()]


class StrictRequest(Request):
    """A request that refuses JSON with duplicate names, ``NaN``, ``Infinity`` or lone surrogates.

    It raises ``json.JSONDecodeError``, which becomes an answer with status 422. ``body`` has been read already.
    """

    def __init__(self, scope: Scope, body: bytes) -> None:
        super().__init__(scope)
        self._body = body

    async def json(self) -> Any:
        """Return the body as parsed JSON. Raises ``json.JSONDecodeError``."""
        body = await self.body()
        try:
            text = body.decode("utf-8")
            value = json.loads(text, object_pairs_hook=_unique_names, parse_constant=partial(_refuse_constant, text))
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # fails on lone surrogates
        except json.JSONDecodeError:
            raise
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
            raise json.JSONDecodeError(reason, "", 0) from error
        return value


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"an object has the name {twice!a} twice: send each name once")
    return fields


def _refuse_constant(text: str, name: str) -> Any:
    without_strings = re.sub(r'"(?:[^"\\]|\\.)*"', lambda string: " " * len(string[0]), text)
    raise ValueError(f"{name} at character {without_strings.index(name) + 1} is not JSON: give a number or null")
