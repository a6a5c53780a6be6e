"""Random worlds of few addresses and low thresholds, so that all kinds of nodes occur."""

from __future__ import annotations

from random import Random

from holderlake.core.contract.rules import Rules
from holderlake.engine.records import Label
from tests.engine.oracle import Oracle
from tests.engine.world import COIN, UINT256, Key, a_token, cex, dex, transfer

TOKENS: tuple[Key, ...] = (COIN, ("eth", "second"), ("bsc", "other"))


def random_oracle(chance: Random) -> Oracle:
    """Return a random world with its answers by brute force."""
    people = [f"p{number:02}" for number in range(chance.randint(5, 20))]
    ends = [*people, *("dead", "coin", "exchange", "pool")]
    of_market = 0.6 if chance.random() < 0.5 else 0  # in half of the worlds most transfers are with exchanges

    def path() -> str:
        if chance.random() >= of_market:
            return f"{chance.choice(['mint', *ends])} -> {chance.choice(['burn', *ends])}"
        some = [chance.choice(people), chance.choice(["exchange", "pool", "coin"])]
        return " -> ".join(chance.sample(some, 2))

    moves = [
        transfer(
            path(),
            chance.choice([0, 1, 2, 5, chance.randrange(100), chance.randrange(10**24), chance.randrange(UINT256)]),
            chance.randint(1, 400),
            token=chance.choice(TOKENS),
        )
        for _ in range(chance.randint(10, 90))
    ]
    grants = [transfer(f"mint -> {one}", chance.randrange(1, 2**256), chance.randint(1, 200)) for one in people[::2]]
    tokens = [a_token(key, decimals=chance.choice([0, 6, 18, 30]), is_indexed=chance.random() < 0.5) for key in TOKENS]
    return Oracle([*grants, *moves], tokens, random_labels(chance, people), random_rules(chance))


def random_labels(chance: Random, people: list[str]) -> list[Label]:
    labels = [
        Label(
            chance.choice(people),
            chance.choice(["eth", "bsc", None]),
            chance.choice(["s1", "s2"]),
            name=f"name {number}",
            entity_id=chance.choice([None, f"entity {number}"]),
            is_cex=chance.random() < 0.2,
            is_dex=chance.random() < 0.1,
            is_contract=chance.random() < 0.2,
            is_paid_label=chance.random() < 0.5,
            precedence=chance.randint(0, 3),
        )
        for number in range(chance.randint(0, 5))
    ]
    last_word = {(label.address, label.chain, label.source): label for label in labels}
    return [*last_word.values(), cex("exchange"), dex("pool")]


def random_rules(chance: Random) -> Rules:
    return Rules(
        supernode_degree=chance.randint(3, 9),
        hypernode_transfers=chance.randint(10, 60),
        magic_links=chance.randint(1, 3),
        magic_limit=chance.randint(1, 5),
        time_window=chance.choice([10, 50, 200]),
        time_links=chance.randint(1, 3),
        time_wallets=chance.choice([2, 4, 20]),
        time_limit=chance.randint(1, 4),
        fresh_wallet_seconds=chance.choice([1, 50, 200]),
        time_allowed=frozenset({"coin"}) if chance.random() < 0.5 else frozenset(),
    )
