"""Tokens of the sample world on Ethereum: Fernlight, Kelpwire, Ticket Stub and Glass Moths."""

from __future__ import annotations

from typing import Final

from benchmarks.sample_world.actors import Scenario, new_address
from benchmarks.sample_world.calendar import DAY, END_TIME, HOUR, MAX_ID, day, every
from benchmarks.sample_world.randomness import Rng
from benchmarks.sample_world.trading import Market, give_part, plan_buying, plan_sales, plan_trades
from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.engine.records import TokenInfo

_DEAD: Final = "0x000000000000000000000000000000000000dead"


def plan(scenario: Scenario) -> None:
    """Plan all transfers of the four sample tokens on Ethereum."""
    _fernlight(scenario)
    _kelpwire(scenario)
    _ticket_stub(scenario)
    _GlassMoths(scenario).plan()


def _fernlight(scenario: Scenario) -> None:
    """Plan the transfers of Fernlight: a fair launch, in which 270 wallets mint nearly the same amount. Two years later
    one buyer has nearly half of the supply."""
    rng, actors = Rng("fernlight"), scenario.actors["eth"]
    token = scenario.new_token(rng, "eth", "Fernlight", "FERN", 18)
    pool, launch, unit = scenario.new_pool(rng, token), day(2024, 12, 16), 10**18
    wallets = actors.pick_wallets(rng, 270, launch)
    for minter in wallets:
        scenario.mint(launch + rng.below(2 * DAY), token, minter, rng.between(9_700, 10_300) * unit)
    scenario.mint(launch, token, pool, 300_000 * unit)

    calm, busy = Market(token, pool, buyers=50, smallest=unit), Market(token, pool, buyers=30, smallest=unit)
    plan_trades(scenario, rng, calm, wallets, launch + 3 * DAY, day(2025, 3, 1), 120)
    plan_trades(scenario, rng, busy, wallets, day(2025, 3, 1), END_TIME, 3_300)

    whale, *pockets = (new_address(rng, "eth") for _ in range(3))
    scenario.label(whale, "eth", "fernwhale", is_paid_label=True)
    scenario.fund(rng, day(2025, 5, 10), actors, whale, 40_000)
    plan_buying(scenario, busy, whale, every(7, day(2025, 6, 2), END_TIME), 24)
    for pocket in pockets:
        scenario.send(day(2025, 7, 1), actors.native, whale, pocket, actors.native_unit)
        for time in every(45, day(2025, 7, 2), END_TIME):
            scenario.calendar.at(time, give_part, scenario, token, whale, pocket, 12)
    scenario.address_sets["fernlight-whale"] = [whale, *pockets]


def _kelpwire(scenario: Scenario) -> None:
    """Plan the transfers of Kelpwire: nine insiders get tokens through one wallet, which keeps none, and sell them from
    October 2025 on."""
    rng, actors = Rng("kelpwire"), scenario.actors["eth"]
    token = scenario.new_token(rng, "eth", "Kelpwire", "KELP", 18)
    pool, launch, supply = scenario.new_pool(rng, token), day(2025, 1, 15), 10**9 * 10**18
    deployer = scenario.new_actor(rng, "eth", "Kelpwire: Deployer", entity_id="kelpwire")
    vesting = scenario.new_actor(rng, "eth", "Kelpwire: Vesting", is_contract=True, entity_id="kelpwire")
    launchpad = scenario.new_actor(rng, "eth", "Springboard: Launchpad", is_contract=True, entity_id="springboard")
    scenario.fund(rng, launch - 12 * DAY, actors, deployer, 500)
    scenario.mint(launch, token, deployer, supply)
    for receiver, percent in ((pool, 18), (vesting, 12), (launchpad, 24), (actors.northgate, 6), (actors.lumen, 3)):
        scenario.send(launch + HOUR, token, deployer, receiver, supply * percent // 100)
    insiders = _insiders(scenario, rng, token, deployer, supply, launch)

    wallets = actors.pick_wallets(rng, 170, launch)
    for buyer in wallets:
        share = supply * 24 // 100 // len(wallets) * rng.between(10, 98) // 100
        scenario.send(launch + 2 * HOUR + rng.below(5 * DAY), token, launchpad, buyer, share)
    team = scenario.new_actor(rng, "eth", "Kelpwire: Team", entity_id="kelpwire")
    for time in every(30, launch + 30 * DAY, END_TIME):
        scenario.calendar.at(time, give_part, scenario, token, vesting, team, 4)
    market = Market(token, pool, actors.exchanges, buyers=58, smallest=10**18)
    plan_trades(scenario, rng, market, wallets, launch + 6 * DAY, END_TIME, 2_700)
    plan_sales(scenario, rng, market, insiders, every(9, day(2025, 10, 6), END_TIME), 5)


def _insiders(scenario: Scenario, rng: Rng, token: TokenInfo, deployer: str, supply: int, launch: int) -> list[str]:
    """Plan how nine insiders get ether from a funder, and more than a third of the supply through a middleman.

    Return the insiders' wallets.
    """
    actors = scenario.actors["eth"]
    funder, middleman = new_address(rng, "eth"), new_address(rng, "eth")
    insiders = [new_address(rng, "eth") for _ in range(9)]
    scenario.fund(rng, launch - 10 * DAY, actors, funder, 60_000)
    scenario.send(launch - 9 * DAY, actors.native, funder, middleman, 80 * actors.native_unit)
    scenario.send(launch + HOUR, token, deployer, middleman, supply * 36 // 100)
    for number, insider in enumerate(insiders):
        scenario.send(
            launch - 8 * DAY + number * HOUR, actors.native, middleman, insider, rng.between(4, 8) * actors.native_unit
        )
        scenario.send(launch + (2 + number) * HOUR, token, middleman, insider, supply * 4 // 100)
        # their earnings return to the funder in dollars
        for time in every(40, day(2025, 11, 1) + number * DAY, END_TIME):
            dollars = rng.between(2_000, 9_000) * actors.dollar
            scenario.send(time, actors.stable, actors.lumen, insider, dollars)
            scenario.send(time + 3 * HOUR, actors.stable, insider, funder, dollars)
    scenario.address_sets["kelpwire-insiders"] = [funder, middleman, *insiders]
    return insiders


def _ticket_stub(scenario: Scenario) -> None:
    """Plan the transfers of Ticket Stub: tickets without decimals. A used ticket is sent to the burn address."""
    rng, actors = Rng("ticket stub"), scenario.actors["eth"]
    token = scenario.new_token(rng, "eth", "Ticket Stub", "STUB", 0)
    pool, sale = scenario.new_pool(rng, token), day(2025, 3, 3)
    wallets = actors.pick_wallets(rng, 150, sale)
    for fan in wallets:
        scenario.mint(sale + rng.below(14 * DAY), token, fan, rng.between(12, 90))
    scenario.mint(sale, token, pool, 4_000)
    plan_trades(scenario, rng, Market(token, pool), wallets, sale + 15 * DAY, END_TIME, 340)
    for time in rng.times(day(2025, 6, 1), END_TIME, 380):
        scenario.calendar.at(time, _use_ticket, scenario, rng, token, rng.choice(wallets))


def _use_ticket(time: int, scenario: Scenario, rng: Rng, token: TokenInfo, fan: str) -> None:
    used = min(scenario.transfers.balance(token, fan), rng.between(1, 4))
    if used:
        scenario.transfers.move(time, token, fan, _DEAD, used)


class _GlassMoths:
    """Glass Moths: an NFT collection of 420 items, one with the largest possible id. A market holds the items for
    sale."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario, self.rng, self.actors = scenario, Rng("glass moths"), scenario.actors["eth"]
        self.token = scenario.new_token(self.rng, "eth", "Glass Moths", "GMOTH", 0, standard="erc721")
        self.market = scenario.new_actor(self.rng, "eth", "Lampshade Market", is_contract=True, entity_id="lampshade")
        self.owners: dict[int, str] = {}

    def plan(self) -> None:
        rng, calendar, opening = self.rng, self.scenario.calendar, day(2025, 1, 20)
        wallets = self.actors.pick_wallets(rng, 190, opening)
        collector = new_address(rng, "eth")
        self.scenario.fund(rng, day(2025, 8, 20), self.actors, collector, 9_000)
        for item in (*range(419), MAX_ID):
            calendar.at(opening + rng.below(16 * DAY), self._mint, rng.early_choice(wallets), item)
        for time in rng.times(opening + 17 * DAY, END_TIME, 560):
            calendar.at(time, self._offer, rng.choice(wallets))
        for time in rng.times(day(2025, 9, 1), END_TIME, 70):
            calendar.at(time, self._offer, collector)
        for time in rng.times(opening + 17 * DAY, END_TIME, 60):
            calendar.at(time, self._give_or_burn)

    def _mint(self, time: int, minter: str, item: int) -> None:
        self._move(time, ZERO_ADDRESS, minter, item)

    def _offer(self, time: int, buyer: str) -> None:
        """Offer an item for sale at the market. The buyer gets it within three days."""
        item = self._any_item()
        if self.owners[item] not in (self.market, _DEAD, buyer):
            self._move(time, self.owners[item], self.market, item)
            self.scenario.calendar.at(time + self.rng.between(1, 72) * HOUR, self._sold, buyer, item)

    def _sold(self, time: int, buyer: str, item: int) -> None:
        self._move(time, self.market, buyer, item)

    def _give_or_burn(self, time: int) -> None:
        item = self._any_item()
        owner = self.owners[item]
        receiver = self.actors.friends.get(owner, _DEAD if self.rng.is_true(10) else None)
        if receiver and owner not in (self.market, _DEAD):
            self._move(time, owner, receiver, item)

    def _any_item(self) -> int:
        return self.rng.choice(list(self.owners))

    def _move(self, time: int, sender: str, receiver: str, item: int) -> None:
        self.owners[item] = receiver
        self.scenario.transfers.move(time, self.token, sender, receiver, 1, item)
