"""The stories told on Ethereum: Fernlight, Kelpwire, Ticket Stub and the Glass Moths."""

from __future__ import annotations

from typing import Final

from holderlake.contract.chains import ZERO_ADDRESS
from holderlake.engine.records import TokenInfo
from holderlake.engine.sources.sample.actors import Stage, new_address
from holderlake.engine.sources.sample.calendar import DAY, END_TIME, HOUR, MAX_ID, day, every
from holderlake.engine.sources.sample.randomness import Draw
from holderlake.engine.sources.sample.trading import Market, give_part, plan_buying, plan_sales, plan_trades

_DEAD: Final = "0x000000000000000000000000000000000000dead"


def tell(stage: Stage) -> None:
    """Plans all of them."""
    _fernlight(stage)
    _kelpwire(stage)
    _ticket_stub(stage)
    _GlassMoths(stage).tell()


def _fernlight(stage: Stage) -> None:
    """A fair launch: 270 people mint nearly the same. Two years later a stranger owns nearly half."""
    draw, cast = Draw("fernlight"), stage.casts["eth"]
    token = stage.new_token(draw, "eth", "Fernlight", "FERN", 18)
    pool, launch, unit = stage.new_pool(draw, token), day(2024, 12, 16), 10**18
    crowd = cast.people(draw, 270, launch)
    for minter in crowd:
        stage.mint(launch + draw.below(2 * DAY), token, minter, draw.between(9_700, 10_300) * unit)
    stage.mint(launch, token, pool, 300_000 * unit)

    calm, busy = Market(token, pool, buyers=50, smallest=unit), Market(token, pool, buyers=30, smallest=unit)
    plan_trades(stage, draw, calm, crowd, launch + 3 * DAY, day(2025, 3, 1), 120)
    plan_trades(stage, draw, busy, crowd, day(2025, 3, 1), END_TIME, 3_300)

    whale, *pockets = (new_address(draw, "eth") for _ in range(3))
    stage.label(whale, "eth", "fernwhale", is_paid_label=True)
    stage.fund(draw, day(2025, 5, 10), cast, whale, 40_000)
    plan_buying(stage, busy, whale, every(7, day(2025, 6, 2), END_TIME), 24)
    for pocket in pockets:
        stage.send(day(2025, 7, 1), cast.native, whale, pocket, cast.one)
        for time in every(45, day(2025, 7, 2), END_TIME):
            stage.calendar.at(time, give_part, stage, token, whale, pocket, 12)
    stage.address_sets["fernlight-whale"] = [whale, *pockets]


def _kelpwire(stage: Stage) -> None:
    """Nine insiders, paid through one wallet that keeps nothing itself, sell to the crowd from late 2025 on."""
    draw, cast = Draw("kelpwire"), stage.casts["eth"]
    token = stage.new_token(draw, "eth", "Kelpwire", "KELP", 18)
    pool, launch, supply = stage.new_pool(draw, token), day(2025, 1, 15), 10**9 * 10**18
    deployer = stage.new_actor(draw, "eth", "Kelpwire: Deployer", entity_id="kelpwire")
    vesting = stage.new_actor(draw, "eth", "Kelpwire: Vesting", is_contract=True, entity_id="kelpwire")
    launchpad = stage.new_actor(draw, "eth", "Springboard: Launchpad", is_contract=True, entity_id="springboard")
    stage.fund(draw, launch - 12 * DAY, cast, deployer, 500)
    stage.mint(launch, token, deployer, supply)
    for receiver, percent in ((pool, 18), (vesting, 12), (launchpad, 24), (cast.northgate, 6), (cast.lumen, 3)):
        stage.send(launch + HOUR, token, deployer, receiver, supply * percent // 100)
    insiders = _insiders(stage, draw, token, deployer, supply, launch)

    crowd = cast.people(draw, 170, launch)
    for buyer in crowd:
        share = supply * 24 // 100 // len(crowd) * draw.between(10, 98) // 100
        stage.send(launch + 2 * HOUR + draw.below(5 * DAY), token, launchpad, buyer, share)
    team = stage.new_actor(draw, "eth", "Kelpwire: Team", entity_id="kelpwire")
    for time in every(30, launch + 30 * DAY, END_TIME):
        stage.calendar.at(time, give_part, stage, token, vesting, team, 4)
    market = Market(token, pool, cast.exchanges, buyers=58, smallest=10**18)
    plan_trades(stage, draw, market, crowd, launch + 6 * DAY, END_TIME, 2_700)
    plan_sales(stage, draw, market, insiders, every(9, day(2025, 10, 6), END_TIME), 5)


def _insiders(stage: Stage, draw: Draw, token: TokenInfo, deployer: str, supply: int, launch: int) -> list[str]:
    """A funder's ether reaches them through a middleman, and so does more than a third of the supply."""
    cast = stage.casts["eth"]
    funder, middleman = new_address(draw, "eth"), new_address(draw, "eth")
    insiders = [new_address(draw, "eth") for _ in range(9)]
    stage.fund(draw, launch - 10 * DAY, cast, funder, 60_000)
    stage.send(launch - 9 * DAY, cast.native, funder, middleman, 80 * cast.one)
    stage.send(launch + HOUR, token, deployer, middleman, supply * 36 // 100)
    for number, insider in enumerate(insiders):
        stage.send(launch - 8 * DAY + number * HOUR, cast.native, middleman, insider, draw.between(4, 8) * cast.one)
        stage.send(launch + (2 + number) * HOUR, token, middleman, insider, supply * 4 // 100)
        # what they earn goes back to the funder in dollars
        for time in every(40, day(2025, 11, 1) + number * DAY, END_TIME):
            dollars = draw.between(2_000, 9_000) * cast.dollar
            stage.send(time, cast.stable, cast.lumen, insider, dollars)
            stage.send(time + 3 * HOUR, cast.stable, insider, funder, dollars)
    stage.address_sets["kelpwire-insiders"] = [funder, middleman, *insiders]
    return insiders


def _ticket_stub(stage: Stage) -> None:
    """Whole tickets without decimals; those who use one send it to the burn address."""
    draw, cast = Draw("ticket stub"), stage.casts["eth"]
    token = stage.new_token(draw, "eth", "Ticket Stub", "STUB", 0)
    pool, sale = stage.new_pool(draw, token), day(2025, 3, 3)
    crowd = cast.people(draw, 150, sale)
    for fan in crowd:
        stage.mint(sale + draw.below(14 * DAY), token, fan, draw.between(12, 90))
    stage.mint(sale, token, pool, 4_000)
    plan_trades(stage, draw, Market(token, pool), crowd, sale + 15 * DAY, END_TIME, 340)
    for time in draw.times(day(2025, 6, 1), END_TIME, 380):
        stage.calendar.at(time, _use_ticket, stage, draw, token, draw.one(crowd))


def _use_ticket(time: int, stage: Stage, draw: Draw, token: TokenInfo, fan: str) -> None:
    used = min(stage.book.held(token, fan), draw.between(1, 4))
    if used:
        stage.book.move(time, token, fan, _DEAD, used)


class _GlassMoths:
    """An NFT collection of 420, sold through a market that holds what is on offer, with one id at the very end."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.draw, self.cast = stage, Draw("glass moths"), stage.casts["eth"]
        self.token = stage.new_token(self.draw, "eth", "Glass Moths", "GMOTH", 0, standard="erc721")
        self.market = stage.new_actor(self.draw, "eth", "Lampshade Market", is_contract=True, entity_id="lampshade")
        self.owners: dict[int, str] = {}

    def tell(self) -> None:
        draw, calendar, opening = self.draw, self.stage.calendar, day(2025, 1, 20)
        crowd = self.cast.people(draw, 190, opening)
        collector = new_address(draw, "eth")
        self.stage.fund(draw, day(2025, 8, 20), self.cast, collector, 9_000)
        for item in (*range(419), MAX_ID):
            calendar.at(opening + draw.below(16 * DAY), self._mint, draw.early(crowd), item)
        for time in draw.times(opening + 17 * DAY, END_TIME, 560):
            calendar.at(time, self._offer, draw.one(crowd))
        for time in draw.times(day(2025, 9, 1), END_TIME, 70):
            calendar.at(time, self._offer, collector)
        for time in draw.times(opening + 17 * DAY, END_TIME, 60):
            calendar.at(time, self._give_or_burn)

    def _mint(self, time: int, minter: str, item: int) -> None:
        self._move(time, ZERO_ADDRESS, minter, item)

    def _offer(self, time: int, buyer: str) -> None:
        """Somebody offers an item, and within three days the buyer has it."""
        item = self._any_item()
        if self.owners[item] not in (self.market, _DEAD, buyer):
            self._move(time, self.owners[item], self.market, item)
            self.stage.calendar.at(time + self.draw.between(1, 72) * HOUR, self._sold, buyer, item)

    def _sold(self, time: int, buyer: str, item: int) -> None:
        self._move(time, self.market, buyer, item)

    def _give_or_burn(self, time: int) -> None:
        item = self._any_item()
        owner = self.owners[item]
        receiver = self.cast.friends.get(owner, _DEAD if self.draw.chance(10) else None)
        if receiver and owner not in (self.market, _DEAD):
            self._move(time, owner, receiver, item)

    def _any_item(self) -> int:
        return self.draw.one(list(self.owners))

    def _move(self, time: int, sender: str, receiver: str, item: int) -> None:
        self.owners[item] = receiver
        self.stage.book.move(time, self.token, sender, receiver, 1, item)
