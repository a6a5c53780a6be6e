"""Read names, symbols and decimals of tokens from token lists, in the format that wallets publish."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holderlake.core.contract.chains import CHAIN_BY_EVM_ID, KNOWN_CHAINS, chain_named
from holderlake.core.contract.chains.addresses import parse_token, shown
from holderlake.engine.errors import BadSource
from holderlake.engine.records import TokenInfo
from holderlake.sources.envelopes import Pages, error_in
from holderlake.sources.files.values import whole_count
from holderlake.sources.json_rows import repetition
from holderlake.sources.problems import bad_source
from holderlake.sources.raw_rows import first_text, read_text

_SOLANA_MAINNET: Final = 101
_ADDRESSES: Final = ("address", "contract_address", "contractAddress")
_OF_ROWS: Final = frozenset(
    {"from", "to", "fromaddress", "toaddress", "sender", "receiver", "value", "amount", "balance", "holder", "owner"}
)
"""Names, without underscores, of the columns of transfers and balances."""
_CHAINS: Final = {**CHAIN_BY_EVM_ID, _SOLANA_MAINNET: "solana"}
_MAX_DECIMALS: Final = 255
_BEGINS_AS_LIST: Final = re.compile(r'\{\s*"(?:name|tokens|0x[0-9a-fA-F]{40})"')
"""Pattern of the beginning of a token list or a contract map. It shows that a file with incomplete JSON was one of
these."""


_HAS_TOKENS: Final = re.compile(r'"tokens"\s*:\s*\[')


@dataclass(frozen=True)
class TokenList:
    """The tokens of a file, and a sentence for each token that cannot be read, with its place and the reason.

    ``notices`` are sentences about the file, for example that it is one page.
    """

    tokens: list[TokenInfo]
    left_out: list[str]
    notices: list[str]


_REPEATED: Final = object()


def read_tokens(path: Path) -> TokenList:
    """Return the tokens of a token list or of a contract map.

    A token list has ``tokens`` with ``chainId``, or is the list of these tokens, or one token. A contract map has
    tokens by address, on Ethereum. Numbers may be texts, decimal or hexadecimal, and a chain may be given by its name.
    An address in the form of TRON is of TRON, because lists for it have the chain id of Ethereum. A token with
    ``is_indexed: true``, in itself or in its ``extensions``, is marked as indexed. Tokens of unknown chains, such as
    test networks, are left out silently. If a token is repeated, the first entry counts. Raises ``BadSource`` for
    another layout, and if no token of the file can be read.
    """
    text = read_text(path)
    try:
        content = json.loads(text, object_pairs_hook=_with_repeated)
    except (ValueError, RecursionError) as error:
        raise bad_source(path, f"not complete JSON ({error}); correct the file, or fetch it again") from error
    if isinstance(content, dict) and _REPEATED in content:
        raise bad_source(path, f"{content[_REPEATED]}; remove the repetition")
    pages = Pages()
    if isinstance(content, dict):
        if answer_error := error_in(content, is_alone=True):
            raise bad_source(path, f"an API's error instead of tokens: {answer_error}; fetch it again")
        if isinstance(content.get("tokens"), list):
            pages.add(content, ("tokens",), len(content["tokens"]))
    tokens: dict[tuple[str, str], TokenInfo] = {}
    left_out: list[BadSource] = []
    for number, entry in enumerate(_entries(path, content), start=1):
        try:
            token = _token(path, number, entry)
        except BadSource as error:
            left_out.append(error)
            continue
        if token is not None:
            tokens.setdefault((token.chain, token.address), token)
    if left_out and not tokens:
        raise left_out[0]
    return TokenList(list(tokens.values()), list(map(str, left_out)), list(pages.notices(path.name)))


def _with_repeated(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    """Return a JSON object as a dictionary. One with a repeated key has a sentence about it under ``_REPEATED``.

    If the repeated keys are tokens of a contract map, these tokens have the sentence.
    """
    result: dict[Any, Any] = dict(pairs)
    if len(result) == len(pairs):
        return result
    names = Counter(name for name, _ in pairs)
    repeated = {name: result[name] for name, count in names.items() if count > 1}
    if not all(map(_is_contract_map, repeated.values())):
        return result | {_REPEATED: repetition(pairs)}
    return result | {name: token | {_REPEATED: repetition([(name, token)] * 2)} for name, token in repeated.items()}


def is_token_list(path: Path) -> bool:
    """Return whether a JSON file (compressed or not) is a token list or a contract map."""
    if not path.name.removesuffix(".gz").removesuffix(".zst").endswith(".json"):
        return False
    text, is_whole = first_text(path)
    text = text.lstrip()
    if not text.startswith("{"):
        return text.startswith("[") and _is_listed_token(text)
    if not is_whole:
        return _BEGINS_AS_LIST.match(text) is not None or _HAS_TOKENS.search(text) is not None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return _BEGINS_AS_LIST.match(text) is not None
    if not isinstance(content, dict) or not content:
        return False
    is_list = isinstance(content.get("tokens"), list)
    return is_list or all(map(_is_contract_map, content.values())) or _is_listed_token(text)


def _is_listed_token(text: str) -> bool:
    """Return whether the first element of a JSON array is a token and no transfer or balance."""
    try:
        first_element, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    except (ValueError, RecursionError):
        return False
    names = {name.lower().replace("_", "") for name in first_element}
    return {"symbol", "decimals"} <= names and names.isdisjoint(_OF_ROWS)


def _entries(path: Path, content: Any) -> list[Any]:
    if isinstance(content, dict) and isinstance(content.get("tokens"), list):
        return list(content["tokens"])
    if isinstance(content, list) and content:
        return content
    if isinstance(content, dict) and content and all(_is_contract_map(value) for value in content.values()):
        return [
            token if _first(token, *_ADDRESSES) else {"chainId": 1, "address": key, **token, "logoURI": None}
            for key, token in content.items()
        ]
    if _is_contract_map(content) and _first(content, *_ADDRESSES):
        return [content]
    raise bad_source(
        path,
        "unknown layout; use a token list (tokens with chainId, address, name, symbol, decimals) or a map of "
        "address to name, symbol and decimals",
    )


def _is_contract_map(value: object) -> bool:
    return isinstance(value, dict) and {"symbol", "decimals"} <= value.keys()


def _address(path: Path, number: int, chain: str, text: str) -> str:
    try:
        return parse_token(chain, text)
    except ValueError as error:
        raise bad_source(path, str(error), column="address", row=number) from error


def _token(path: Path, number: int, token: Any) -> TokenInfo | None:
    """Return a token of the list, or None if its chain is unknown. Raises ``BadSource`` if it cannot be read."""
    if not isinstance(token, dict):
        raise bad_source(path, f"{shown(token)} is not a token; write an object, or remove it", row=number)
    extensions = token.get("extensions")
    for part in (token, extensions if isinstance(extensions, dict) else {}):
        if _REPEATED in part:
            raise bad_source(path, f"{part[_REPEATED]}; remove the repetition, or the token", row=number)
    address, decimals = _first(token, *_ADDRESSES), token.get("decimals")
    chain = _chain(path, number, token, address)
    if chain is None:
        return None
    decimals = _whole_number(decimals)
    if not isinstance(address, str) or not address.strip():
        raise bad_source(path, "a token has no address; add it or remove the token", row=number)
    if decimals is None or not 0 <= decimals <= _MAX_DECIMALS:
        reason = (
            f"decimals is {shown(token.get('decimals'))}; write a whole number from 0 to {_MAX_DECIMALS}, or remove "
            "the token"
        )
        raise bad_source(path, reason, row=number)
    # a few real tokens have a blank name or symbol; then both are the same
    names = [text for text in (_plain(token.get("name")), _plain(token.get("symbol"))) if text]
    if not names:
        raise bad_source(path, f"token {address} has neither name nor symbol; add one", row=number)
    img_url = token.get("logoURI")
    return TokenInfo(
        chain=chain,
        address=_address(path, number, chain, address),
        name=names[0],
        symbol=names[-1],
        decimals=decimals,
        standard="erc721" if token.get("erc721") is True else "erc20",
        is_indexed=_is_indexed(path, number, token),
        img_url=img_url if isinstance(img_url, str) and img_url.startswith("https://") else None,
    )


def _first(token: Mapping[str, Any], *names: str) -> Any:
    """Return the first of the values ``names`` that the token has; None if it has none."""
    return next((token[name] for name in names if token.get(name) is not None), None)


def _chain(path: Path, number: int, token: Mapping[str, Any], address: object) -> str | None:
    """Return the chain of a token, None if it is unknown. Raises ``BadSource`` if the token names no chain."""
    if isinstance(address, str) and _is_of_tron(address):
        return "tron"
    value = _first(token, "chainId", "chain_id", "chain")
    chain_id = _whole_number(value)
    if chain_id is not None:
        return _CHAINS.get(chain_id)
    chain = chain_named(value) if isinstance(value, str) else None
    if chain not in KNOWN_CHAINS:
        reason = f"chainId is {shown(value)}; write the number of the chain, or remove the token"
        raise bad_source(path, reason, row=number)
    return chain


def _is_of_tron(address: str) -> bool:
    try:
        return address.startswith("T") and bool(parse_token("tron", address))
    except ValueError:
        return False


def _whole_number(value: object) -> int | None:
    """Return a whole number from a number or its text, decimal or hexadecimal; None for any other value."""
    if value is None or isinstance(value, bool):
        return None
    try:
        return whole_count(value)
    except ValueError:
        return None


def _plain(value: object) -> str:
    """Return a text in one line without invisible characters, such as marks that change the direction of text."""
    if value is None:
        return ""
    return " ".join("".join(letter for letter in str(value) if letter.isprintable() or letter.isspace()).split())


def _is_indexed(path: Path, number: int, token: Mapping[str, Any]) -> bool:
    extensions = token.get("extensions")
    marked = token.get("is_indexed", extensions.get("is_indexed") if isinstance(extensions, dict) else None)
    if not isinstance(marked, bool | None):
        raise bad_source(path, f"is_indexed is {marked!r}; write true or false", row=number)
    return marked is True
