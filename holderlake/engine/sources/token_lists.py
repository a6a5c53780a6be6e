"""Read names, symbols and decimals of tokens from token lists, in the format that wallets publish."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from holderlake.contract.chains import CHAIN_BY_EVM_ID
from holderlake.contract.chains.addresses import parse_token
from holderlake.engine.records import TokenInfo
from holderlake.engine.sources.rows.problems import bad_source
from holderlake.engine.sources.rows.raw import read_text

_SOLANA_MAINNET: Final = 101
_CHAINS: Final = {**CHAIN_BY_EVM_ID, _SOLANA_MAINNET: "solana"}
_MAX_DECIMALS: Final = 255
_BEGINS_AS_LIST: Final = re.compile(r'\{\s*"(?:name|tokens|0x[0-9a-fA-F]{40})"')
"""Pattern of the beginning of a token list or a contract map. It shows that a file with incomplete JSON was one of
these."""


def read_tokens(path: Path) -> list[TokenInfo]:
    """Return the tokens of a token list or of a contract map.

    A token list has ``tokens`` with ``chainId``. A contract map has tokens by address, on Ethereum. A token with
    ``is_indexed: true``, in itself or in its ``extensions``, is marked as indexed. Tokens of unknown chains, for
    example test networks, are left out. If a token is repeated, the first entry counts. Raises ``BadSource`` for
    another layout, and for a token without address, name or decimals.
    """
    text = read_text(path)
    try:
        content = json.loads(text)
    except ValueError as error:
        raise bad_source(path, f"not complete JSON ({error}); fetch the file again") from error
    found: dict[tuple[str, str], TokenInfo] = {}
    for number, (chain_id, token) in enumerate(_entries(path, content), start=1):
        if chain_id in _CHAINS:
            info = _token(path, number, _CHAINS[chain_id], token)
            found.setdefault((info.chain, info.address), info)
    return list(found.values())


def is_token_list(path: Path) -> bool:
    """Return whether a JSON file (compressed or not) is a token list or a contract map."""
    if not path.name.removesuffix(".gz").removesuffix(".zst").endswith(".json"):
        return False
    text = read_text(path).lstrip()
    if not text.startswith("{"):
        return False
    try:
        content = json.loads(text)
    except ValueError:
        return _BEGINS_AS_LIST.match(text) is not None
    is_list = isinstance(content, dict) and isinstance(content.get("tokens"), list)
    return is_list or (isinstance(content, dict) and bool(content) and all(map(_is_contract_map, content.values())))


def _entries(path: Path, content: Any) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    if isinstance(content, dict) and isinstance(content.get("tokens"), list):
        tokens: Iterable[tuple[Any, Any]] = ((_chain_id(token), token) for token in content["tokens"])
    elif isinstance(content, dict) and content and all(_is_contract_map(value) for value in content.values()):
        tokens = ((1, {**token, "address": address, "logoURI": None}) for address, token in content.items())
    else:
        raise bad_source(
            path,
            "unknown layout; use a token list (tokens with chainId, address, name, symbol, decimals) or a map of "
            "address to name, symbol and decimals",
        )
    yield from tokens


def _is_contract_map(value: object) -> bool:
    return isinstance(value, dict) and {"symbol", "decimals"} <= value.keys()


def _chain_id(token: object) -> Any:
    return token.get("chainId") if isinstance(token, dict) else None


def _address(path: Path, number: int, chain: str, text: str) -> str:
    try:
        return parse_token(chain, text)
    except ValueError as error:
        raise bad_source(path, str(error), column="address", row=number) from error


def _token(path: Path, number: int, chain: str, token: Mapping[str, Any]) -> TokenInfo:
    address, name, symbol = (token.get(key) for key in ("address", "name", "symbol"))
    decimals = token.get("decimals")
    if not isinstance(address, str) or not address.strip():
        raise bad_source(path, "a token has no address; add it or remove the token", row=number)
    if not isinstance(decimals, int) or isinstance(decimals, bool) or not 0 <= decimals <= _MAX_DECIMALS:
        reason = f"decimals is {decimals!r}; write a whole number from 0 to {_MAX_DECIMALS}, or remove the token"
        raise bad_source(path, reason, row=number)
    # a few real tokens have a blank name or symbol; then both are the same
    named = [str(text).strip() for text in (name, symbol) if text and str(text).strip()]
    if not named:
        raise bad_source(path, f"token {address} has neither name nor symbol; add one", row=number)
    img_url = token.get("logoURI")
    return TokenInfo(
        chain=chain,
        address=_address(path, number, chain, address),
        name=named[0],
        symbol=named[-1],
        decimals=decimals,
        standard="erc721" if token.get("erc721") is True else "erc20",
        is_indexed=_is_indexed(path, number, token),
        img_url=img_url if isinstance(img_url, str) and img_url.startswith("https://") else None,
    )


def _is_indexed(path: Path, number: int, token: Mapping[str, Any]) -> bool:
    extensions = token.get("extensions")
    marked = token.get("is_indexed", extensions.get("is_indexed") if isinstance(extensions, dict) else None)
    if not isinstance(marked, bool | None):
        raise bad_source(path, f"is_indexed is {marked!r}; write true or false", row=number)
    return marked is True
