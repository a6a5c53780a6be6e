"""Tokens of the sample world on Solana: Sunpetal, Driftwood, Latchkey, and a payroll in dollars."""

from __future__ import annotations

from benchmarks.sample_world.actors import ChainActors, Scenario, new_address
from benchmarks.sample_world.calendar import DAY, END_TIME, HOUR, MINUTE, day, every
from benchmarks.sample_world.randomness import Rng
from benchmarks.sample_world.trading import Market, give_part, plan_sales, plan_trades
from holderlake.engine.records import TokenInfo


def plan(scenario: Scenario) -> None:
    """Plan all transfers of the three sample tokens on Solana, and of the payroll."""
    _sunpetal(scenario)
    _driftwood(scenario)
    _latchkey(scenario)


def _sunpetal(scenario: Scenario) -> None:
    """Plan the transfers of Sunpetal: a token with a bot that is a hypernode, two market makers that are supernodes,
    and a payroll."""
    rng, actors = Rng("sunpetal"), scenario.actors["solana"]
    token = scenario.new_token(rng, "solana", "Sunpetal", "SUNP", 6)
    pool, launch, supply = scenario.new_pool(rng, token), day(2025, 1, 8), 5 * 10**8 * 10**6
    reserve = scenario.new_actor(rng, "solana", "Sunpetal: Reserve", is_contract=True, entity_id="sunpetal")
    scenario.mint(launch, token, reserve, supply)
    for receiver, percent in ((pool, 30), (actors.lumen, 8)):
        scenario.send(launch + HOUR, token, reserve, receiver, supply * percent // 100)
    wallets = actors.pick_wallets(rng, 180, launch)
    for wallet in wallets:
        amount = supply // 10_000 * rng.between(2, 30)
        scenario.send(launch + 2 * HOUR + rng.below(4 * DAY), token, reserve, wallet, amount)
    market = Market(token, pool, (actors.lumen,), smallest=10**6)
    plan_trades(scenario, rng, market, wallets, launch + 6 * DAY, END_TIME, 1_900)
    _bot(scenario, rng, actors, market)
    maker_a, maker_b = (_market_maker(scenario, rng, actors, token, reserve, supply, number) for number in range(2))
    for time in every(50, day(2025, 7, 1), END_TIME):
        scenario.calendar.at(time, give_part, scenario, token, maker_a, maker_b, 3)
    _payroll(scenario, rng, actors)


def _bot(scenario: Scenario, rng: Rng, actors: ChainActors, market: Market) -> None:
    """Plan about 1,700 alternating purchases and sales of a bot, which is a hypernode by the world's rules."""
    bot = new_address(rng, "solana")
    scenario.fund(rng, day(2025, 3, 1), actors, bot, 3_000)
    scenario.send(day(2025, 3, 2), market.token, market.pool, bot, 6_000_000 * 10**6)
    for number, time in enumerate(rng.times(day(2025, 3, 3), END_TIME, 1_700)):
        ends = (market.pool, bot) if number % 2 else (bot, market.pool)
        scenario.send(time, market.token, *ends, rng.between(800, 1_200) * 10**6)
    scenario.address_sets["sunpetal-machines"] = [bot]


def _market_maker(
    scenario: Scenario, rng: Rng, actors: ChainActors, token: TokenInfo, reserve: str, supply: int, number: int
) -> str:
    """Plan a market maker's small sales to 165 wallets, which make it a supernode by the world's rules. Return its
    address."""
    maker = new_address(rng, "solana")
    scenario.fund(rng, day(2025, 2, 1 + 9 * number), actors, maker, 2_000)
    scenario.send(day(2025, 2, 20 + number), token, reserve, maker, supply * 3 // 100)
    for client in [new_address(rng, "solana") for _ in range(165)]:
        time = day(2025, 2, 24) + rng.below(420 * DAY)
        scenario.fund(rng, time - 15 * DAY, actors, client, rng.between(5, 60))
        scenario.send(time, token, maker, client, rng.between(2_000, 9_000) * 10**6)
    scenario.address_sets.setdefault("sunpetal-machines", []).append(maker)
    return maker


def _payroll(scenario: Scenario, rng: Rng, actors: ChainActors) -> None:
    """Plan quarterly payments to 190 wallets. Without the rule for supernodes, these wallets would be one cluster."""
    payer = new_address(rng, "solana")
    scenario.fund(rng, day(2025, 2, 3), actors, payer, 5_000)
    staff = actors.pick_wallets(rng, 190, day(2025, 2, 3))
    for payday in every(91, day(2025, 3, 31), END_TIME):
        scenario.send(payday - DAY, actors.stable, actors.northgate, payer, 1_000_000 * actors.dollar)
        for number, worker in enumerate(staff):
            pay = rng.between(900, 4_000) * actors.dollar
            scenario.send(payday + number * 10, actors.stable, payer, worker, pay)
        scenario.calendar.at(payday + HOUR, give_part, scenario, actors.stable, payer, actors.northgate, 100)
    scenario.address_sets["sunpetal-machines"].append(payer)


def _driftwood(scenario: Scenario) -> None:
    """Plan the transfers of Driftwood: seven wallets with the same source of funds buy a quarter of the supply in two
    minutes, and sell most of it a year later."""
    rng, actors = Rng("driftwood"), scenario.actors["solana"]
    token = scenario.new_token(rng, "solana", "Driftwood", "DRFT", 6)
    pool, launch, supply = scenario.new_pool(rng, token), day(2025, 8, 10), 10**9 * 10**6
    scenario.mint(launch, token, pool, supply)
    purse, go_between = new_address(rng, "solana"), new_address(rng, "solana")
    snipers = [new_address(rng, "solana") for _ in range(7)]
    scenario.fund(rng, launch - 3 * DAY, actors, purse, 50_000)
    scenario.send(launch - 2 * DAY, actors.native, purse, go_between, 90 * actors.native_unit)
    for number, sniper in enumerate(snipers):
        funding_time = launch - DAY + number * 20 * MINUTE
        scenario.send(funding_time, actors.native, go_between, sniper, rng.between(5, 11) * actors.native_unit)
        scenario.send(launch + 8 + number * 15, token, pool, sniper, supply * rng.between(32, 41) // 1_000)
    wallets = actors.pick_wallets(rng, 150, launch)
    market = Market(token, pool, buyers=62, smallest=10**6)
    plan_trades(scenario, rng, market, wallets, launch + 3 * MINUTE, launch + 10 * DAY, 450)
    plan_trades(scenario, rng, market, wallets, launch + 10 * DAY, END_TIME, 800)
    plan_sales(scenario, rng, market, snipers, [day(2026, 6, 15), day(2026, 6, 18), day(2026, 7, 2)], 65)
    scenario.address_sets["driftwood-snipers"] = [purse, go_between, *snipers]


def _latchkey(scenario: Scenario) -> None:
    """Plan the transfers of Latchkey: a token that is launched late, with no holders before the middle of July 2026."""
    rng, actors = Rng("latchkey"), scenario.actors["solana"]
    token = scenario.new_token(rng, "solana", "Latchkey", "LATCH", 9)
    pool, launch, supply = scenario.new_pool(rng, token), day(2026, 7, 15), 2 * 10**7 * 10**9
    vesting = scenario.new_actor(rng, "solana", "Latchkey: Vesting", is_contract=True, entity_id="latchkey")
    scenario.mint(launch, token, vesting, supply * 40 // 100)
    scenario.mint(launch, token, pool, supply * 35 // 100)
    wallets = actors.pick_wallets(rng, 160, launch)
    for wallet in wallets:
        scenario.mint(launch + rng.below(3 * DAY), token, wallet, supply // 1_000 * rng.between(1, 20) // 10)
    plan_trades(scenario, rng, Market(token, pool, smallest=10**9), wallets, launch + 4 * DAY, END_TIME, 700)
