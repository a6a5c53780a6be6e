"""Parameters as they come in a path or a query, where everything is text and a chain must be one of ours.

Their names, defaults and bounds are the contract's.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request

from contract.models import Address, ChainId, TokenKey
from contract.requests import HoldersOptions, MapOptions
from engine.tokens import chains_table
from service.errors import invalid_request


def _token_of_path(request: Request, chain: ChainId, token_address: Address) -> TokenKey:
    known = chains_table(request.app.state.store)["chain"].to_pylist()
    if chain not in known:
        raise invalid_request(("path", "chain"), f"Input should be one of {', '.join(known)}", "enum")
    return TokenKey(chain=chain, address=token_address)


PathToken = Annotated[TokenKey, Depends(_token_of_path)]
MapQuery = Annotated[MapOptions, Query()]
HoldersQuery = Annotated[HoldersOptions, Query()]
