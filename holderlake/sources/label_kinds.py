"""Derive kinds of addresses (exchange, pool, contract) from the names, tags and categories in collections of labels.

The rules are cautious, because a wrong kind hides a holder from every map. They were tested with 9,190 Ethereum
addresses: the names are from two public collections, the kinds from a third one. The rules found 6,904 contracts. They
took 18 of 1,411 wallets for contracts, among them burn addresses, for which this is intended. ``labels`` reads the
collections.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from holderlake.sources.formats import FORMATS_TABLE


@dataclass(frozen=True)
class Kinds:
    """The kinds of an address (``is_cex``, ``is_dex``, ``is_contract``).

    ``entity_id`` is the slug of the entity that owns the address; None if the label does not show the owner.
    """

    is_cex: bool = False
    is_dex: bool = False
    is_contract: bool = False
    entity_id: str | None = None


def kinds_of(name: str, tags: Collection[str] = ()) -> Kinds:
    """Return the kinds of an address, from its name ("Brand: Detail 2") and its tags (slugs)."""
    exchange, venue = _owner(name, tags, EXCHANGES), _owner(name, tags, VENUES)
    wallet = bool(_WALLET_WORDS.search(name)) or not _WALLET_TAGS.isdisjoint(tags)
    is_cex = bool(exchange or (name and "exchange" in tags)) and not _NO_CUSTODY.search(name)
    is_dex = not is_cex and bool(venue or (name and "dex" in tags)) and not _NO_VENUE.search(name) and not wallet
    of_contract = is_named_contract(name) or not _CONTRACT_TAGS.isdisjoint(tags) or (is_dex and venue is not None)
    return Kinds(is_cex, is_dex, of_contract and not wallet, exchange or venue)


def is_named_contract(name: str) -> bool:
    """Return whether a name is that of a contract, for example of a token, a router or a burn address."""
    return bool(_CONTRACT_WORDS.search(name)) and not _WALLET_WORDS.search(name)


def keeps_custody(name: str) -> bool:
    """Return whether an exchange's address with this name holds funds of customers.

    Addresses for the exchange's token, deployer, charity and similar purposes do not.
    """
    return not _NO_CUSTODY.search(name)


def entity_of(actor: str) -> str:
    """Return the slug of an entity, the same for all spellings in the sources (``okex`` and ``OKX`` are ``okx``)."""
    squeezed = _squeezed(actor)
    return EXCHANGES.get(squeezed) or VENUES.get(squeezed) or re.sub(r"[^a-z0-9]+", "-", actor.lower()).strip("-")


def _owner(name: str, tags: Collection[str], owners: dict[str, str]) -> str | None:
    """Return the slug of the owner whose brand is in the name; None for unknown owners. Without a name, the tags are
    searched.

    A name has precedence over tags: "Wintermute: Binance Deposit" has the tag binance, but does not belong to Binance.
    """
    brand = _squeezed(_BRAND_SUFFIX.sub("", name.partition(":")[0].strip().lower()))
    if brand:
        return owners.get(brand)
    return next((owners[_squeezed(tag)] for tag in sorted(tags) if _squeezed(tag) in owners), None)


def _squeezed(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _owners(*spellings: str) -> dict[str, str]:
    """Return the slug of each spelling. An argument has all spellings of one owner; the first one is the slug."""
    return {_squeezed(spelling): line.split()[0] for line in spellings for spelling in line.split()}


_TABLE: Final = FORMATS_TABLE["labels"]
EXCHANGES: Final = _owners(*_TABLE["exchanges"])
VENUES: Final = _owners(*_TABLE["venues"])
"""Decentralised exchanges, by spelling."""

_WORDS: Final = {name: f"(?:{'|'.join(words)})" for name, words in _TABLE["words"].items()}
_BRAND_SUFFIX: Final = re.compile(rf"(?:\s+{_WORDS['brand_suffix']})+$")
_NO_CUSTODY: Final = re.compile(rf"\b{_WORDS['no_custody']}\b|:\s*\w+ deposit\b", re.IGNORECASE)
_NO_VENUE: Final = re.compile(rf"\b{_WORDS['no_venue']}\b", re.IGNORECASE)
_WALLET_WORDS: Final = re.compile(rf"\b{_WORDS['wallet']}\b", re.IGNORECASE)
_CONTRACT_WORDS: Final = re.compile(rf"\b{_WORDS['contract']}\b|^null(?: address)?:", re.IGNORECASE)
_WALLET_TAGS: Final = frozenset(_TABLE["wallet_tags"])
_CONTRACT_TAGS: Final = frozenset(_TABLE["contract_tags"])
