"""Parameters as they come in a path or a query, where everything is text and a chain must be one of ours.

Their names, defaults and bounds are the contract's.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import BeforeValidator, Field

from contract.models import Address, ChainId, HolderLimit, TokenKey
from contract.requests import HoldersOptions, MapOptions
from engine.tokens import chains_table
from service.errors import invalid_request


def _number(value: Any) -> Any:
    # A literal compares, it does not convert: "250" of a query would be none of 80, 250 and 500.
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value


QueryLimit = Annotated[HolderLimit, BeforeValidator(_number)]


class MapParameters(MapOptions):
    """The map's options, read from text."""

    limit: QueryLimit = Field(default=80, description=MapOptions.model_fields["limit"].description)


class HoldersParameters(HoldersOptions):
    """The holders' options, read from text."""

    limit: QueryLimit = Field(default=80, description=HoldersOptions.model_fields["limit"].description)


def _token_of_path(request: Request, chain: ChainId, token_address: Address) -> TokenKey:
    known = chains_table(request.app.state.store)["chain"].to_pylist()
    if chain not in known:
        raise invalid_request(("path", "chain"), f"Input should be one of {', '.join(known)}", "enum")
    return TokenKey(chain=chain, address=token_address)


PathToken = Annotated[TokenKey, Depends(_token_of_path)]
MapQuery = Annotated[MapParameters, Query()]
HoldersQuery = Annotated[HoldersParameters, Query()]
