"""The known chains, their names and families, and the normal form of addresses.

Any chain id is accepted. A chain that is not listed here works everywhere, but has no display name and no ids of price
platforms. ``addresses`` parses the addresses that users write; ``keccak`` computes the hash for checksums of EVM
addresses.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Literal

NATIVE = "native"
ZERO_ADDRESS = "0x" + "0" * 40
BURN_ADDRESSES = frozenset(
    {
        ZERO_ADDRESS,
        "0x000000000000000000000000000000000000dead",
        "0xdead000000000000000042069420694206942069",
        "1nc1nerator11111111111111111111111111111111",
    }
)

CHAIN_ID_PATTERN = r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,63}"
CHAIN_ID_FORM = "at most 64 letters, digits, '_', '-' and, after the first, '.'"
"""Description of ``CHAIN_ID_PATTERN`` for errors. Each chain id is safe as a part of a path."""
_CHAIN_ID = re.compile(CHAIN_ID_PATTERN)
_HEX_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]+")
_COIN_TYPE = re.compile(r"(0[xX][0-9a-fA-F]{1,64})((?:::[!-~]+)?)")
_SPECIAL_ADDRESS = 0x10
_TICKER_BYTES = (4, 5)
_SPACERS = re.compile("[\u2022\u00b7\u2219\u2027]")
_SHORTEST_ADDRESS = 26
"""Fewest characters of an address. A shorter text is the symbol of a coin."""
Family = Literal["evm", "solana", "tron", "ton"]
"""A family of chains. All chains of a family have the same form of addresses."""


@dataclass(frozen=True)
class KnownChain:
    """A known chain, with its name, its family of addresses and its coin.

    ``evm_id`` is the chain id of EIP-155; None for other families. ``dexscreener_id`` and ``coingecko_id`` are the
    chain's ids at two platforms of price data; None if the platform does not list the chain. ``explorer`` is the host
    of a website that shows its transactions, if any. ``is_served``: every service lists it.
    """

    id: str
    name: str
    native_symbol: str
    native_decimals: int = 18
    evm_id: int | None = None
    dexscreener_id: str | None = None
    coingecko_id: str | None = None
    family: Family = "evm"
    first_day: date | None = None
    """A day (UTC) on or before the chain's first block. None if no such day is certain."""
    explorer: str | None = None
    is_served: bool = True


def _known_chains() -> dict[str, KnownChain]:
    tables = tomllib.loads(Path(__file__).with_name("known_chains.toml").read_text("utf-8"))
    return {chain: KnownChain(chain, **values) for chain, values in tables.items()}


KNOWN_CHAINS: dict[str, KnownChain] = _known_chains()
"""The known chains by id, from ``known_chains.toml``."""
SERVED_CHAINS = tuple(chain.id for chain in KNOWN_CHAINS.values() if chain.is_served)
"""The chains that a service lists. A store can have further chains."""

_EXPLORER_PATHS: dict[Family, dict[str, str]] = {
    "evm": {"address": "address/{value}", "transaction": "tx/{value}"},
    "solana": {"address": "account/{value}", "transaction": "tx/{value}"},
    "tron": {"address": "#/address/{value}", "transaction": "#/transaction/{value}"},
    "ton": {"address": "{value}", "transaction": "transaction/{value}"},
}


def explorer_pages(kind: Literal["address", "transaction"]) -> dict[str, str]:
    """Return the block explorers' pages about an address or a transaction, by chain, with ``{value}`` in its place."""
    return {
        chain.id: f"https://{chain.explorer}/{_EXPLORER_PATHS[chain.family][kind]}"
        for chain in KNOWN_CHAINS.values()
        if chain.explorer is not None
    }


def from_first_day(chain: str, instants: Iterable[datetime]) -> list[datetime]:
    """Return the instants that are not before the first day of the chain ``chain``. Earlier instants have no data."""
    known_chain = KNOWN_CHAINS.get(chain)
    first_day = known_chain.first_day if known_chain else None
    return [when for when in instants if first_day is None or when.date() >= first_day]


ADDRESSES_OF_64_DIGITS = frozenset({"starknet", "sui", "aptos", "movement", "iota", "starknet-sepolia"})
"""Chains whose addresses are numbers of up to 64 hexadecimal digits, with or without leading zeros."""
BITCOINS = frozenset({"bitcoin", "btc", "bitcoin-testnet", "litecoin", "fractal-bitcoin", "dogecoin"})
"""Chains of Bitcoin's kind, with bech32 addresses, BRC-20 tickers and runes."""


def one_spelling(chain: str, text: str) -> str:
    """Return an address or token in the one spelling of its chain, without checking it.

    - Hexadecimal (EVM) is in lower case. Addresses of Solana, TRON and TON are unchanged.
    - Addresses of 64 digits are in lower case, with all 64 digits, or as short as possible below 0x10. The name of a
      coin type follows unchanged (``0x2::sui::SUI``). 0 is ``ZERO_ADDRESS``.
    - Bech32 is in lower case. A BRC-20 ticker is in lower case, and a rune's name without its bullets.
    """
    if chain in ADDRESSES_OF_64_DIGITS and (match := _COIN_TYPE.fullmatch(text)):
        number = int(match[1], 16)
        if not number and not match[2]:
            return ZERO_ADDRESS
        return (f"0x{number:x}" if number < _SPECIAL_ADDRESS else f"0x{number:064x}") + match[2]
    if chain in BITCOINS:
        bare = _SPACERS.sub("", text)
        is_case_free = _BECH32.fullmatch(text) or (bare == text and len(text.encode()) in _TICKER_BYTES)
        return text.lower() if is_case_free else bare.upper() if bare != text else text
    return normalise_address(text)


_BECH32 = re.compile(r"(?:bc|tb|bcrt|ltc|tltc)1[0-9a-z]{20,90}|(?:BC|TB|BCRT|LTC|TLTC)1[0-9A-Z]{20,90}")


def family_of(chain: str | None) -> Family | None:
    """Return the family of a chain, or None for a chain that is not in ``KNOWN_CHAINS``."""
    known_chain = KNOWN_CHAINS.get(chain or "")
    return known_chain.family if known_chain else None


CHAIN_BY_EVM_ID: dict[int, str] = {
    chain.evm_id: chain.id for chain in KNOWN_CHAINS.values() if chain.evm_id is not None
}


def normalise_address(address: str) -> str:
    """Return the address in the contract's form: hexadecimal (EVM) in lower case, all others unchanged.

    Use it for addresses in provider answers and in look-ups. It does not check them; ``contract.chains.addresses``
    parses and checks the addresses that users write. Solana, TRON and TON addresses are case-sensitive and never begin
    with ``0x``.
    """
    text = address.strip()
    return text.lower() if _HEX_ADDRESS.fullmatch(text) or text.lower() == NATIVE else text


def chain_named(text: str) -> str:
    """Return the id of a chain, given its id or another common name (``ethereum``, ``bnb``, ``mainnet``).

    Text that names no known chain is returned unchanged.
    """
    plain = text.strip()
    return plain if plain in KNOWN_CHAINS else _ALIASES.get(plain.lower().replace("_", "-").replace(" ", "-"), plain)


def chain_typed(text: str | None) -> str | None:
    """Check a chain id that a user typed, and return it. None stays None.

    Raises ``ValueError`` for another name of a known chain (the message gives its id), and for text that cannot be a
    chain id.
    """
    if text is None:
        return None
    chain_id = chain_named(text)
    if chain_id != text:
        raise ValueError(f"chain {text!r} is called {chain_id} here; use {chain_id}")
    if not is_chain_id(text):
        raise ValueError(f"{text!r} is not a chain id; use {CHAIN_ID_FORM}")
    return text


def chain_meant(text: str) -> str | None:
    """Return the id of the known chain that a text names or nearly names (``etherem``); None if there is none."""
    chain_id = chain_named(text)
    if chain_id in KNOWN_CHAINS:
        return chain_id
    near = difflib.get_close_matches(text.strip().lower(), _ALIASES, n=1, cutoff=0.75)
    return _ALIASES[near[0]] if near else None


def is_chain_id(text: str) -> bool:
    """Return whether a text has the form of a chain id, of a known chain or another one."""
    return _CHAIN_ID.fullmatch(text) is not None


_ALIASES: dict[str, str] = {
    **{chain.name.lower().replace(" ", "-"): chain.id for chain in KNOWN_CHAINS.values()},
    **{chain.coingecko_id: chain.id for chain in KNOWN_CHAINS.values() if chain.coingecko_id},
    **{chain.dexscreener_id: chain.id for chain in KNOWN_CHAINS.values() if chain.dexscreener_id},
    **{chain_id: chain_id for chain_id in KNOWN_CHAINS},
    **{"mainnet": "eth", "eth-mainnet": "eth", "ethereum-mainnet": "eth", "bnb": "bsc", "binance": "bsc"},
    **{"avalanche-c": "avalanche", "avax": "avalanche", "matic": "polygon", "op": "optimism", "sol": "solana"},
    **{"trx": "tron", "arb": "arbitrum", "arbitrum-mainnet": "arbitrum", "base-mainnet": "base", "bsc-mainnet": "bsc"},
}
"""Chain ids by the names that data providers use for the chains, in lower case with hyphens."""


def address_of_token_id(text: str) -> str:
    """Return the address of a token from its ``id`` in an older answer, which is an address or a coin's symbol.

    A symbol (``ETH``) becomes ``native``.
    """
    is_address = _HEX_ADDRESS.fullmatch(text.strip()) or len(text.strip()) >= _SHORTEST_ADDRESS
    return normalise_address(text) if is_address else NATIVE
