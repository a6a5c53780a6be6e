"""Actors of the sample world: the wallets, exchanges, tokens and labels of each chain.

The modules named after a chain plan the transfers of its tokens. ``trading`` has the behaviour that tokens have in
common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.sample_world.calendar import BEGIN_TIME, DAY, Calendar, SampleTransfers
from benchmarks.sample_world.randomness import Rng
from holderlake.core.contract.chains import KNOWN_CHAINS, NATIVE, ZERO_ADDRESS
from holderlake.engine.records import Label, TokenInfo

_FIRST_WAVE: Final = 26 * DAY


@dataclass(frozen=True)
class Wallet:
    """A person's wallet. ``born`` is the unix second of the first transfer to it."""

    address: str
    born: int


@dataclass
class ChainActors:
    """The actors of a chain. ``one`` is the raw amount of one native token, ``dollar`` that of one stable token.

    ``northgate`` and ``lumen`` are exchanges. ``friends`` has pairs of wallets that send tokens to each other.
    """

    chain: str
    native: TokenInfo
    stable: TokenInfo
    native_unit: int
    dollar: int
    northgate: str
    lumen: str
    bridge: str
    wallets: list[Wallet]
    friends: dict[str, str] = field(default_factory=dict)

    @property
    def exchanges(self) -> tuple[str, str]:
        """The addresses of the chain's two exchanges."""
        return self.northgate, self.lumen

    def pick_wallets(self, rng: Rng, count: int, time: int) -> list[str]:
        """Return ``count`` random wallets that were first funded at least two weeks before ``time`` (unix
        seconds)."""
        grown = [wallet.address for wallet in self.wallets if wallet.born < time - 14 * DAY]
        return rng.sample(grown, count)


@dataclass
class Scenario:
    """The sample world under construction: transfers so far, calendar, actors, tokens and labels."""

    transfers: SampleTransfers
    calendar: Calendar = field(default_factory=Calendar)
    actors: dict[str, ChainActors] = field(default_factory=dict)
    tokens: list[TokenInfo] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    address_sets: dict[str, list[str]] = field(default_factory=dict)

    def new_token(self, rng: Rng, chain: str, name: str, symbol: str, decimals: int, **fields: Any) -> TokenInfo:
        """Add a token, and return it. Its address is random unless ``fields`` (of ``TokenInfo``) has one."""
        address = fields.pop("address", None) or new_address(rng, chain)
        token = TokenInfo(chain, address, name, symbol, decimals, **fields)
        self.tokens.append(token)
        return token

    def new_actor(self, rng: Rng, chain: str, name: str, **kinds: Any) -> str:
        """Return a new address with a label. ``kinds`` are fields of ``Label``."""
        address = new_address(rng, chain)
        self.label(address, chain, name, **kinds)
        return address

    def label(self, address: str, chain: str | None, name: str, **kinds: Any) -> None:
        """Add a label of an address, with the source ``sample``. ``kinds`` are other fields of ``Label``."""
        values = {"source": "sample", "precedence": 50, **kinds}
        self.labels.append(Label(address, chain, name=name, **values))

    def new_pool(self, rng: Rng, token: TokenInfo) -> str:
        """Add a token's pool at the world's decentralised exchange, and return its address."""
        name = f"Millpond: {token.symbol} Pool"
        return self.new_actor(rng, token.chain, name, is_dex=True, is_contract=True, entity_id="millpond")

    def fund(self, rng: Rng, time: int, actors: ChainActors, wallet: str, hundredths: int) -> None:
        """Plan the first transfer to a wallet: ``hundredths`` of a native token, from an exchange."""
        self.send(time, actors.native, rng.choice(actors.exchanges), wallet, actors.native_unit * hundredths // 100)

    def mint(self, time: int, token: TokenInfo, holder: str, amount: int) -> None:
        """Plan that ``holder`` gets a raw amount of newly minted tokens at the unix second ``time``."""
        self.calendar.at(time, self.transfers.move, token, ZERO_ADDRESS, holder, amount)

    def send(self, time: int, token: TokenInfo, sender: str, receiver: str, amount: int) -> None:
        """Plan a transfer of a raw amount. The sender must have it at that time."""
        self.calendar.at(time, self.transfers.move, token, sender, receiver, amount)


def new_address(rng: Rng, chain: str) -> str:
    """Return a random address in the spelling of the chain."""
    if chain != "solana":
        return rng.hexadecimal(40)
    text = rng.base58(rng.between(43, 44))
    # 44 letters that begin after J are more than 32 bytes, and 43 that begin before it are fewer
    return ("Z" if len(text) == 43 else "C") + text[1:]


def add_actors(scenario: Scenario) -> None:
    """Add wallets, exchanges, native and stable tokens of the four chains."""
    rng = Rng("cast")
    northgate = scenario.new_actor(rng, "eth", "Northgate: Hot Wallet", is_cex=True, entity_id="northgate")
    # the exchange has the same address on all EVM chains, so its label has no chain
    scenario.labels[-1] = Label(
        northgate, None, "sample", "Northgate: Hot Wallet", "northgate", is_cex=True, precedence=50
    )
    scenario.label(northgate, "eth", "an exchange, they say", source="sample-community", precedence=5)
    for chain, count in (("eth", 460), ("base", 380), ("bsc", 330), ("solana", 400)):
        scenario.actors[chain] = _chain_actors(scenario, rng, chain, count, northgate)
    scenario.address_sets["exchanges"] = sorted(
        {address for actors in scenario.actors.values() for address in actors.exchanges}
    )


def _chain_actors(scenario: Scenario, rng: Rng, chain: str, count: int, northgate: str) -> ChainActors:
    known_chain = KNOWN_CHAINS[chain]
    native = scenario.new_token(
        rng,
        chain,
        {"eth": "Ether", "base": "Ether", "bsc": "BNB", "solana": "SOL"}[chain],
        known_chain.native_symbol,
        known_chain.native_decimals,
        address=NATIVE,
        standard="native",
        is_indexed=True,
    )
    stable = scenario.new_token(rng, chain, "Pebble Dollar", "PBLD", 6, is_indexed=True)
    if chain == "solana":
        northgate = scenario.new_actor(rng, chain, "Northgate: Hot Wallet", is_cex=True, entity_id="northgate")
    actors = ChainActors(
        chain=chain,
        native=native,
        stable=stable,
        native_unit=10**native.decimals,
        dollar=10**6,
        northgate=northgate,
        lumen=scenario.new_actor(rng, chain, "Lumen Bourse 1", is_cex=True, entity_id="lumen-bourse"),
        bridge=scenario.new_actor(rng, chain, "Causeway: Bridge", is_contract=True, entity_id="causeway"),
        wallets=_wallets(rng, chain, count),
    )
    actors.friends = _friends(rng, actors.wallets)
    return actors


def _wallets(rng: Rng, chain: str, count: int) -> list[Wallet]:
    """Return ``count`` new wallets of a chain. Three quarters of them are funded in the first weeks, the rest later."""
    early = count * 3 // 4
    births = rng.times(BEGIN_TIME + DAY, BEGIN_TIME + _FIRST_WAVE, early)
    births += rng.times(BEGIN_TIME + _FIRST_WAVE, BEGIN_TIME + 690 * DAY, count - early)
    return [Wallet(new_address(rng, chain), born) for born in births]


def _friends(rng: Rng, wallets: Sequence[Wallet]) -> dict[str, str]:
    """Return a few pairs of wallets that send tokens to each other, in both directions.

    With many pairs, each map would be one cluster.
    """
    paired = rng.sample([wallet.address for wallet in wallets if wallet.born < BEGIN_TIME + _FIRST_WAVE], 48)
    pairs = dict(zip(paired[::2], paired[1::2], strict=True))
    return pairs | {friend: wallet for wallet, friend in pairs.items()}
