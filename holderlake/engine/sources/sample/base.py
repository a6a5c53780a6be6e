"""The stories told on Base: Otterbrook, Fledgling, Cinder and the Tide Relics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holderlake.contract.chains import ZERO_ADDRESS
from holderlake.engine.records import TokenInfo
from holderlake.engine.sources.sample.actors import Stage, new_address
from holderlake.engine.sources.sample.calendar import DAY, END_TIME, HOUR, MINUTE, day, every
from holderlake.engine.sources.sample.randomness import Draw
from holderlake.engine.sources.sample.trading import Market, give_part, plan_sales, plan_trades

FRESH_BUYING: Final = day(2026, 3, 14)
"""When more than a hundred wallets that are hours to days old buy Fledgling."""


def tell(stage: Stage) -> None:
    """Plans all of them."""
    _otterbrook(stage)
    _fledgling(stage)
    _cinder(stage)
    _tide_relics(stage)


def _otterbrook(stage: Stage) -> None:
    """Two fifths of the supply fall from a distributor contract upon 260 wallets, and many sell at once."""
    draw, cast = Draw("otterbrook"), stage.casts["base"]
    token = stage.new_token(draw, "base", "Otterbrook", "OTTR", 18)
    pool, drop, supply = stage.new_pool(draw, token), day(2025, 2, 4), 10**8 * 10**18
    distributor = stage.new_actor(
        draw, "base", "Otterbrook: Airdrop Distributor", is_contract=True, entity_id="otterbrook"
    )
    treasury = stage.new_actor(draw, "base", "Otterbrook: Treasury MultiSig", is_contract=True, entity_id="otterbrook")
    stage.mint(drop - DAY, token, treasury, supply)
    for receiver, percent in ((distributor, 40), (pool, 25), (cast.lumen, 5)):
        stage.send(drop - HOUR, token, treasury, receiver, supply * percent // 100)
    crowd = cast.people(draw, 260, drop)
    for number in range(0, len(crowd), 20):
        time = drop + number * HOUR // 4
        stage.calendar.at(time, _drop, stage, draw, token, distributor, crowd[number : number + 20])
    market = Market(token, pool, (cast.lumen,), buyers=35, smallest=10**18)
    plan_trades(stage, draw, market, crowd, drop + DAY, drop + 30 * DAY, 700)
    plan_trades(stage, draw, market, crowd, drop + 30 * DAY, END_TIME, 1_900)
    grants = [new_address(draw, "base") for _ in range(4)]
    for grantee in grants:
        stage.fund(draw, day(2025, 5, 1) + draw.below(20 * DAY), cast, grantee, 200)
        for time in every(60, day(2025, 6, 1), END_TIME):
            stage.calendar.at(time, give_part, stage, token, treasury, grantee, 1)


def _drop(time: int, stage: Stage, draw: Draw, token: TokenInfo, distributor: str, receivers: Sequence[str]) -> None:
    """A batch of the airdrop: one transaction, three sizes of gift."""
    transaction = stage.book.transaction(token)
    for receiver in receivers:
        amount = draw.one((40_000, 90_000, 250_000)) * 10**18
        stage.book.move(time, token, distributor, receiver, amount, transaction=transaction)


def _fledgling(stage: Stage) -> None:
    """A quiet token, until 130 wallets that came over the bridge the same week buy it on one day."""
    draw, cast = Draw("fledgling"), stage.casts["base"]
    token = stage.new_token(draw, "base", "Fledgling", "FLDG", 18)
    pool, launch, unit = stage.new_pool(draw, token), day(2025, 11, 20), 10**18
    crowd = cast.people(draw, 90, launch)
    for early in crowd:
        stage.mint(launch + draw.below(DAY), token, early, draw.between(1_000, 9_000) * unit)
    stage.mint(launch, token, pool, 1_500_000 * unit)
    market = Market(token, pool, smallest=unit)
    plan_trades(stage, draw, market, crowd, launch + 2 * DAY, END_TIME, 480)

    fresh = [new_address(draw, "base") for _ in range(130)]
    for number, wallet in enumerate(fresh):
        # five bursts over eight days, each within an hour of the clock
        hour = day(2026, 3, 6, 9) + (number % 5) * 45 * HOUR
        stage.send(
            hour + draw.below(50 * MINUTE), cast.native, cast.bridge, wallet, draw.between(4, 9) * cast.one // 100
        )
        amount = draw.between(2_000, 7_000) * unit
        stage.send(FRESH_BUYING + draw.below(20 * HOUR), token, pool, wallet, amount)
    plan_sales(stage, draw, market, fresh, [day(2026, 4, 20), day(2026, 6, 5)], 70)


def _cinder(stage: Stage) -> None:
    """Ninety people held it; by the middle of December 2025 every one has given it back to nothing."""
    draw, cast = Draw("cinder"), stage.casts["base"]
    token = stage.new_token(draw, "base", "Cinder", "CNDR", 8)
    opening = day(2025, 1, 9)
    crowd = cast.people(draw, 90, opening)
    for holder in crowd:
        stage.mint(opening + draw.below(10 * DAY), token, holder, draw.between(50, 4_000) * 10**8)
    for time in draw.times(opening + 11 * DAY, day(2025, 10, 25), 240):
        stage.calendar.at(time, give_part, stage, token, draw.early(crowd), draw.early(crowd), draw.between(5, 60))
    for holder in crowd:
        stage.calendar.at(day(2025, 11, 1) + draw.below(44 * DAY), give_part, stage, token, holder, ZERO_ADDRESS, 100)


def _tide_relics(stage: Stage) -> None:
    """An ERC-1155 collection of eight kinds of things, minted several kinds at once."""
    draw, cast = Draw("tide relics"), stage.casts["base"]
    token = stage.new_token(draw, "base", "Tide Relics", "TIDE", 0, standard="erc1155")
    shop = stage.new_actor(draw, "base", "Tide Relics: Shop", is_contract=True, entity_id="tide-relics")
    opening = day(2025, 4, 7)
    crowd = cast.people(draw, 130, opening)
    for wallet in crowd:
        stage.calendar.at(opening + draw.below(60 * DAY), _find_relics, stage, draw, token, wallet)
    for time in draw.times(opening + 61 * DAY, END_TIME, 420):
        stage.calendar.at(time, _trade_relic, stage, draw, token, shop, draw.early(crowd))


def _find_relics(time: int, stage: Stage, draw: Draw, token: TokenInfo, wallet: str) -> None:
    kinds: dict[int | None, int] = {kind: draw.between(1, 6) for kind in sorted(draw.some(range(1, 9), 3))}
    stage.book.move_items(time, token, ZERO_ADDRESS, wallet, kinds)


def _trade_relic(time: int, stage: Stage, draw: Draw, token: TokenInfo, shop: str, wallet: str) -> None:
    """The wallet sells one to the shop where it can, else it buys one there."""
    kind = draw.between(1, 8)
    seller, buyer = (wallet, shop) if stage.book.held(token, wallet, kind) and draw.chance(60) else (shop, wallet)
    if stage.book.held(token, seller, kind):
        stage.book.move(time, token, seller, buyer, 1, kind)
