"""Read names, symbols and decimals of tokens from token lists, in the formats that wallets publish, and from tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holderlake.core.contract.chains import CHAIN_BY_EVM_ID, KNOWN_CHAINS, chain_named
from holderlake.core.contract.chains.addresses import parse_token, shown
from holderlake.engine.errors import BadSource
from holderlake.engine.records import TokenInfo
from holderlake.sources.files.values import MAX_DECIMALS, whole_count
from holderlake.sources.formats import FORMATS_TABLE, folded_name, spellings
from holderlake.sources.json_rows import REPEATED
from holderlake.sources.problems import bad_source
from holderlake.sources.raw_rows import RawTable, listed, read_raw

_SOLANA_MAINNET: Final = 101
_CHAINS: Final = {**CHAIN_BY_EVM_ID, _SOLANA_MAINNET: "solana"}
_NAMES: Final[Mapping[str, Sequence[str]]] = FORMATS_TABLE["names"]["tokens"]
_OF_ROWS: Final = frozenset(FORMATS_TABLE["names"]["no_tokens"]["columns"])
_FLAGS: Final = {None: False, "": False, "false": False, "true": True}


@dataclass(frozen=True)
class TokenList:
    """The tokens of a file, and a sentence for each token that cannot be read, with its place and the reason.

    ``notices`` are sentences about the file, for example that it is one page.
    """

    tokens: list[TokenInfo]
    left_out: list[str]
    notices: list[str]


def is_token_list(raw: RawTable) -> bool:
    """Return whether the rows of a file are tokens and no transfers or balances, by the names of the columns."""
    names = set(map(folded_name, raw.columns))
    return {"symbol", "decimals"} <= names and names.isdisjoint(_OF_ROWS)


def read_tokens(path: Path) -> TokenList:
    """Return the tokens of a file as ``tokens_of`` does. Raises ``BadSource`` for a file of another layout, too."""
    raw = read_raw(path)
    if not is_token_list(raw):
        raise raw.bad(
            "unknown layout; use a token list (tokens with chainId, address, name, symbol, decimals) or a map of "
            f"address to name, symbol and decimals. The file has {listed(raw.columns)}"
        )
    return tokens_of(raw)


def tokens_of(raw: RawTable) -> TokenList:
    """Return the tokens of a token list or of a contract map, which has tokens by address, on Ethereum.

    A chain is a number, decimal or hexadecimal, or a name. An address in the form of TRON is of TRON, because lists for
    it have the chain id of Ethereum. Tokens of unknown chains, such as test networks, are left out silently. If a token
    is repeated, the first entry counts. Raises ``BadSource`` if no token can be read.
    """
    spelt = spellings(raw.columns)
    columns = {
        ours: [spelt[folded_name(name)] for name in names if folded_name(name) in spelt]
        for ours, names in _NAMES.items()
    }
    tokens: dict[tuple[str, str], TokenInfo] = {}
    left_out: list[BadSource] = []
    for number, row in enumerate(raw.table.to_pylist(), start=1):
        values = {ours: next((row[name] for name in names if row[name]), None) for ours, names in columns.items()}
        try:
            if row.get(REPEATED):
                raise ValueError(f"{row[REPEATED]}; remove the repetition, or the token")
            token = _token(values, is_mapped=bool(row.get("key")))
        except ValueError as error:
            left_out.append(bad_source(raw.path, str(error), row=number))
        else:
            if token is not None:
                tokens.setdefault((token.chain, token.address), token)
    if left_out and not tokens:
        raise left_out[0]
    return TokenList(list(tokens.values()), list(map(str, left_out)), list(raw.notices))


def _token(values: Mapping[str, str | None], is_mapped: bool) -> TokenInfo | None:
    """Return a token, or None if its chain is unknown. Raises ``ValueError`` with the reason if it cannot be read."""
    address = (values["address"] or "").strip()
    chain = _chain(values["chain"], address, is_mapped)
    if chain is None:
        return None
    if not address:
        raise ValueError("a token has no address; add it or remove the token")
    decimals = _number_or_none(values["decimals"])
    if decimals is None or decimals > MAX_DECIMALS:
        words = f"write a whole number from 0 to {MAX_DECIMALS}, or remove the token"
        raise ValueError(f"decimals is {shown(values['decimals'])}; {words}")
    # a few real tokens have a blank name or symbol; then both are the same
    names = [text for text in (_plain(values["name"]), _plain(values["symbol"])) if text]
    if not names:
        raise ValueError(f"token {address} has neither name nor symbol; add one")
    img_url = values["img_url"] or ""
    return TokenInfo(
        chain=chain,
        address=parse_token(chain, address),
        name=names[0],
        symbol=names[-1],
        decimals=decimals,
        standard="erc721" if _flag(values, "erc721") else "erc20",
        is_indexed=_flag(values, "is_indexed"),
        img_url=img_url if img_url.startswith("https://") else None,
    )


def _chain(text: str | None, address: str, is_mapped: bool) -> str | None:
    """Return the chain of a token, None if it is unknown. Raises ``ValueError`` if the token names no chain."""
    if _is_of_tron(address):
        return "tron"
    if text is None and is_mapped:
        return "eth"
    number = _number_or_none(text)
    if number is not None:
        return _CHAINS.get(number)
    chain = chain_named(text) if text else None
    if chain not in KNOWN_CHAINS:
        raise ValueError(f"chainId is {shown(text)}; write the number of the chain, or remove the token")
    return chain


def _is_of_tron(address: str) -> bool:
    try:
        return address.startswith("T") and bool(parse_token("tron", address))
    except ValueError:
        return False


def _number_or_none(text: str | None) -> int | None:
    try:
        return None if text is None else whole_count(text)
    except ValueError:
        return None


def _plain(text: str | None) -> str:
    """Return a text in one line without invisible characters, such as marks that change the direction of text."""
    return " ".join("".join(letter for letter in text or "" if letter.isprintable() or letter.isspace()).split())


def _flag(values: Mapping[str, str | None], name: str) -> bool:
    text = values[name]
    flag = _FLAGS.get(text and text.lower())
    if flag is None:
        raise ValueError(f"{name} is {text!r}; write true or false")
    return flag
