"""Tokens of the sample world on Base: Otterbrook, Fledgling, Cinder and Tide Relics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.sample_world.actors import Scenario, new_address
from benchmarks.sample_world.calendar import DAY, END_TIME, HOUR, MINUTE, day, every
from benchmarks.sample_world.randomness import Rng
from benchmarks.sample_world.trading import Market, give_part, plan_sales, plan_trades
from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.engine.records import TokenInfo

FRESH_BUYING: Final = day(2026, 3, 14)
"""The day on which 130 fresh wallets, hours to days old, buy Fledgling."""


def plan(scenario: Scenario) -> None:
    """Plan all transfers of the four sample tokens on Base."""
    _otterbrook(scenario)
    _fledgling(scenario)
    _cinder(scenario)
    _tide_relics(scenario)


def _otterbrook(scenario: Scenario) -> None:
    """Plan the transfers of Otterbrook: a contract distributes two fifths of the supply to 260 wallets, and many of
    them sell at once."""
    rng, actors = Rng("otterbrook"), scenario.actors["base"]
    token = scenario.new_token(rng, "base", "Otterbrook", "OTTR", 18)
    pool, drop, supply = scenario.new_pool(rng, token), day(2025, 2, 4), 10**8 * 10**18
    distributor = scenario.new_actor(
        rng, "base", "Otterbrook: Airdrop Distributor", is_contract=True, entity_id="otterbrook"
    )
    treasury = scenario.new_actor(
        rng, "base", "Otterbrook: Treasury MultiSig", is_contract=True, entity_id="otterbrook"
    )
    scenario.mint(drop - DAY, token, treasury, supply)
    for receiver, percent in ((distributor, 40), (pool, 25), (actors.lumen, 5)):
        scenario.send(drop - HOUR, token, treasury, receiver, supply * percent // 100)
    wallets = actors.pick_wallets(rng, 260, drop)
    for number in range(0, len(wallets), 20):
        time = drop + number * HOUR // 4
        scenario.calendar.at(time, _drop, scenario, rng, token, distributor, wallets[number : number + 20])
    market = Market(token, pool, (actors.lumen,), buyers=35, smallest=10**18)
    plan_trades(scenario, rng, market, wallets, drop + DAY, drop + 30 * DAY, 700)
    plan_trades(scenario, rng, market, wallets, drop + 30 * DAY, END_TIME, 1_900)
    grants = [new_address(rng, "base") for _ in range(4)]
    for grantee in grants:
        scenario.fund(rng, day(2025, 5, 1) + rng.below(20 * DAY), actors, grantee, 200)
        for time in every(60, day(2025, 6, 1), END_TIME):
            scenario.calendar.at(time, give_part, scenario, token, treasury, grantee, 1)


def _drop(
    time: int, scenario: Scenario, rng: Rng, token: TokenInfo, distributor: str, receivers: Sequence[str]
) -> None:
    """Send one batch of an airdrop to ``receivers``: one transaction with amounts of three sizes."""
    transaction = scenario.transfers.transaction(token)
    for receiver in receivers:
        amount = rng.choice((40_000, 90_000, 250_000)) * 10**18
        scenario.transfers.move(time, token, distributor, receiver, amount, transaction=transaction)


def _fledgling(scenario: Scenario) -> None:
    """Plan the transfers of Fledgling: few trades, until 130 wallets that the bridge funded in the same week buy it on
    one day."""
    rng, actors = Rng("fledgling"), scenario.actors["base"]
    token = scenario.new_token(rng, "base", "Fledgling", "FLDG", 18)
    pool, launch, unit = scenario.new_pool(rng, token), day(2025, 11, 20), 10**18
    wallets = actors.pick_wallets(rng, 90, launch)
    for early in wallets:
        scenario.mint(launch + rng.below(DAY), token, early, rng.between(1_000, 9_000) * unit)
    scenario.mint(launch, token, pool, 1_500_000 * unit)
    market = Market(token, pool, smallest=unit)
    plan_trades(scenario, rng, market, wallets, launch + 2 * DAY, END_TIME, 480)

    fresh = [new_address(rng, "base") for _ in range(130)]
    for number, wallet in enumerate(fresh):
        # five bursts over eight days, each within one hour
        hour = day(2026, 3, 6, 9) + (number % 5) * 45 * HOUR
        scenario.send(
            hour + rng.below(50 * MINUTE),
            actors.native,
            actors.bridge,
            wallet,
            rng.between(4, 9) * actors.native_unit // 100,
        )
        amount = rng.between(2_000, 7_000) * unit
        scenario.send(FRESH_BUYING + rng.below(20 * HOUR), token, pool, wallet, amount)
    plan_sales(scenario, rng, market, fresh, [day(2026, 4, 20), day(2026, 6, 5)], 70)


def _cinder(scenario: Scenario) -> None:
    """Plan the transfers of Cinder: ninety wallets hold it. By the middle of December 2025 all of them have burnt
    it."""
    rng, actors = Rng("cinder"), scenario.actors["base"]
    token = scenario.new_token(rng, "base", "Cinder", "CNDR", 8)
    opening = day(2025, 1, 9)
    wallets = actors.pick_wallets(rng, 90, opening)
    for holder in wallets:
        scenario.mint(opening + rng.below(10 * DAY), token, holder, rng.between(50, 4_000) * 10**8)
    for time in rng.times(opening + 11 * DAY, day(2025, 10, 25), 240):
        scenario.calendar.at(
            time, give_part, scenario, token, rng.early_choice(wallets), rng.early_choice(wallets), rng.between(5, 60)
        )
    for holder in wallets:
        scenario.calendar.at(
            day(2025, 11, 1) + rng.below(44 * DAY), give_part, scenario, token, holder, ZERO_ADDRESS, 100
        )


def _tide_relics(scenario: Scenario) -> None:
    """Plan the transfers of Tide Relics: an ERC-1155 collection with eight kinds of items, of which several are minted
    at once."""
    rng, actors = Rng("tide relics"), scenario.actors["base"]
    token = scenario.new_token(rng, "base", "Tide Relics", "TIDE", 0, standard="erc1155")
    shop = scenario.new_actor(rng, "base", "Tide Relics: Shop", is_contract=True, entity_id="tide-relics")
    opening = day(2025, 4, 7)
    wallets = actors.pick_wallets(rng, 130, opening)
    for wallet in wallets:
        scenario.calendar.at(opening + rng.below(60 * DAY), _find_relics, scenario, rng, token, wallet)
    for time in rng.times(opening + 61 * DAY, END_TIME, 420):
        scenario.calendar.at(time, _trade_relic, scenario, rng, token, shop, rng.early_choice(wallets))


def _find_relics(time: int, scenario: Scenario, rng: Rng, token: TokenInfo, wallet: str) -> None:
    kinds: dict[int | None, int] = {kind: rng.between(1, 6) for kind in sorted(rng.sample(range(1, 9), 3))}
    scenario.transfers.move_items(time, token, ZERO_ADDRESS, wallet, kinds)


def _trade_relic(time: int, scenario: Scenario, rng: Rng, token: TokenInfo, shop: str, wallet: str) -> None:
    """Let a wallet sell one item to the shop, or buy one if the wallet has none."""
    kind = rng.between(1, 8)
    seller, buyer = (
        (wallet, shop) if scenario.transfers.balance(token, wallet, kind) and rng.is_true(60) else (shop, wallet)
    )
    if scenario.transfers.balance(token, seller, kind):
        scenario.transfers.move(time, token, seller, buyer, 1, kind)
