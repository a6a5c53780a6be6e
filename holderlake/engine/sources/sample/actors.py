"""The people of the sample world: wallets, exchanges and makers of each chain, and what tokens and labels there are.

What happens to a token is told by the module of its chain; ``trading`` has the habits that the stories share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from holderlake.contract.chains import KNOWN_CHAINS, NATIVE, ZERO_ADDRESS
from holderlake.engine.records import Label, TokenInfo
from holderlake.engine.sources.sample.calendar import BEGIN_TIME, DAY, Book, Calendar
from holderlake.engine.sources.sample.randomness import Draw

_FIRST_WAVE: Final = 26 * DAY


@dataclass(frozen=True)
class Wallet:
    """A person's wallet and the instant it is first funded."""

    address: str
    born: int


@dataclass
class Cast:
    """Who is on a chain. ``one`` is a whole native token in raw units, ``dollar`` a whole one of the stable token."""

    chain: str
    native: TokenInfo
    stable: TokenInfo
    one: int
    dollar: int
    northgate: str
    lumen: str
    bridge: str
    wallets: list[Wallet]
    friends: dict[str, str] = field(default_factory=dict)

    @property
    def exchanges(self) -> tuple[str, str]:
        return self.northgate, self.lumen

    def people(self, draw: Draw, count: int, before: int) -> list[str]:
        """So many wallets that are a fortnight old at least."""
        grown = [wallet.address for wallet in self.wallets if wallet.born < before - 14 * DAY]
        return draw.some(grown, count)


@dataclass
class Stage:
    """Everything that stories work with."""

    book: Book
    calendar: Calendar = field(default_factory=Calendar)
    casts: dict[str, Cast] = field(default_factory=dict)
    tokens: list[TokenInfo] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    address_sets: dict[str, list[str]] = field(default_factory=dict)

    def new_token(self, draw: Draw, chain: str, name: str, symbol: str, decimals: int, **more: Any) -> TokenInfo:
        """A token that is part of the world, at a new address unless one is given."""
        address = more.pop("address", None) or new_address(draw, chain)
        token = TokenInfo(chain, address, name, symbol, decimals, **more)
        self.tokens.append(token)
        return token

    def new_actor(self, draw: Draw, chain: str, name: str, **kinds: Any) -> str:
        """A labelled address."""
        address = new_address(draw, chain)
        self.label(address, chain, name, **kinds)
        return address

    def label(self, address: str, chain: str | None, name: str, **kinds: Any) -> None:
        """A label of the sample's own source, which wins over others unless ``kinds`` says otherwise."""
        given = {"source": "sample", "precedence": 50, **kinds}
        self.labels.append(Label(address, chain, name=name, **given))

    def new_pool(self, draw: Draw, token: TokenInfo) -> str:
        """The pool of a token at the world's decentralised exchange."""
        name = f"Millpond: {token.symbol} Pool"
        return self.new_actor(draw, token.chain, name, is_dex=True, is_contract=True, entity_id="millpond")

    def fund(self, draw: Draw, time: int, cast: Cast, wallet: str, hundredths: int) -> None:
        """Plans a wallet's first native tokens, withdrawn from an exchange."""
        self.send(time, cast.native, draw.one(cast.exchanges), wallet, cast.one * hundredths // 100)

    def mint(self, time: int, token: TokenInfo, holder: str, amount: int) -> None:
        """Plans a mint."""
        self.calendar.at(time, self.book.move, token, ZERO_ADDRESS, holder, amount)

    def send(self, time: int, token: TokenInfo, sender: str, receiver: str, amount: int) -> None:
        """Plans a transfer of an amount that the sender will have."""
        self.calendar.at(time, self.book.move, token, sender, receiver, amount)


def new_address(draw: Draw, chain: str) -> str:
    """An address as the chain writes them."""
    if chain != "solana":
        return draw.hexadecimal(40)
    text = draw.base58(draw.between(43, 44))
    # 44 letters that begin beyond J exceed 32 bytes; 43 that begin below fall short of them
    return ("Z" if len(text) == 43 else "C") + text[1:]


def build_casts(stage: Stage) -> None:
    """Puts wallets, exchanges, native and stable tokens of the four chains on the stage."""
    draw = Draw("cast")
    northgate = stage.new_actor(draw, "eth", "Northgate: Hot Wallet", is_cex=True, entity_id="northgate")
    # the same key is used on every EVM chain, and the label does not say of which
    stage.labels[-1] = Label(
        northgate, None, "sample", "Northgate: Hot Wallet", "northgate", is_cex=True, precedence=50
    )
    stage.label(northgate, "eth", "an exchange, they say", source="sample-community", precedence=5)
    for chain, count in (("eth", 460), ("base", 380), ("bsc", 330), ("solana", 400)):
        stage.casts[chain] = _cast(stage, draw, chain, count, northgate)
    stage.address_sets["exchanges"] = sorted({address for cast in stage.casts.values() for address in cast.exchanges})


def _cast(stage: Stage, draw: Draw, chain: str, count: int, northgate: str) -> Cast:
    known = KNOWN_CHAINS[chain]
    native = stage.new_token(
        draw,
        chain,
        {"eth": "Ether", "base": "Ether", "bsc": "BNB", "solana": "SOL"}[chain],
        known.native_symbol,
        known.native_decimals,
        address=NATIVE,
        standard="native",
        is_indexed=True,
    )
    stable = stage.new_token(draw, chain, "Pebble Dollar", "PBLD", 6, is_indexed=True)
    if chain == "solana":
        northgate = stage.new_actor(draw, chain, "Northgate: Hot Wallet", is_cex=True, entity_id="northgate")
    cast = Cast(
        chain=chain,
        native=native,
        stable=stable,
        one=10**native.decimals,
        dollar=10**6,
        northgate=northgate,
        lumen=stage.new_actor(draw, chain, "Lumen Bourse 1", is_cex=True, entity_id="lumen-bourse"),
        bridge=stage.new_actor(draw, chain, "Causeway: Bridge", is_contract=True, entity_id="causeway"),
        wallets=_wallets(draw, chain, count),
    )
    cast.friends = _friends(draw, cast.wallets)
    return cast


def _wallets(draw: Draw, chain: str, count: int) -> list[Wallet]:
    """Three in four are there within the first weeks, the others come over the two years."""
    early = count * 3 // 4
    births = draw.times(BEGIN_TIME + DAY, BEGIN_TIME + _FIRST_WAVE, early)
    births += draw.times(BEGIN_TIME + _FIRST_WAVE, BEGIN_TIME + 690 * DAY, count - early)
    return [Wallet(new_address(draw, chain), born) for born in births]


def _friends(draw: Draw, wallets: Sequence[Wallet]) -> dict[str, str]:
    """A few pairs who send each other things; if everybody did, every map would be one cluster."""
    paired = draw.some([wallet.address for wallet in wallets if wallet.born < BEGIN_TIME + _FIRST_WAVE], 48)
    pairs = dict(zip(paired[::2], paired[1::2], strict=True))
    return pairs | {second: first for first, second in pairs.items()}
