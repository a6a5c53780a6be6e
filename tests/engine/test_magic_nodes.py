"""Magic nodes: wallets outside the top holders that connect shown holders, for example an insider's."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.rules import Rules
from holderlake.core.contract.times import from_unix
from holderlake.engine.maps.batch import map_batches
from holderlake.engine.store.store import Store
from tests.engine.world import (
    COIN,
    END,
    Row,
    a_token,
    cex,
    draw,
    links,
    nodes,
    table,
    transfer,
    world,
)

Build = Callable[..., Store]


def funded_by(wallet: str, *holders: str, **changed: object) -> list[Row]:
    """Return transfers of a wallet that sends all its tokens to the holders."""
    paid = [transfer(f"{wallet} -> {holder}", 10, **changed) for holder in holders]
    return [transfer(f"mint -> {wallet}", 10 * len(holders), **changed), *paid]


def test_an_insider_that_funded_two_holders_is_found(build: Build) -> None:
    drawn = draw(build(*funded_by("insider", "a", "b")))
    assert nodes(drawn, "magic") == ["insider"]
    assert links(drawn) == ["insider -> a", "insider -> b"]


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        pytest.param(funded_by("hub", "a", "b", "c"), {"rules": Rules(supernode_degree=4)}, id="a supernode"),
        pytest.param(funded_by("hub", "a", "b"), {"rules": Rules(hypernode_transfers=2)}, id="a hypernode"),
        pytest.param(
            [transfer("mint -> a", 9), transfer("mint -> b", 8), transfer("coin -> a"), transfer("coin -> b")],
            {},
            id="the zero address and the token's contract",
        ),
        pytest.param(funded_by("hub", "a", "b"), {"labels": [cex("b")]}, id="linked to a holder that is not shown"),
        pytest.param(funded_by("hub", "a", "a"), {}, id="linked to one holder twice"),
        pytest.param(
            [transfer("mint -> a", 9), transfer("mint -> b", 8), transfer("hub -> a", 0), transfer("hub -> b", 0)],
            {},
            id="transfers of zero",
        ),
    ],
)
def test_other_addresses_are_no_magic_nodes(build: Build, rows: list[Row], options: dict[str, Any]) -> None:
    assert nodes(draw(build(*rows, **options)), "magic") == []


@pytest.mark.later(long=1)
@pytest.mark.integration
@pytest.mark.parametrize("seed", range(6))
def test_ties_are_broken_by_address_in_any_import_order(seed: int) -> None:
    """The order is that of the bytes of the text: digits, capitals, small letters, then letters beyond ASCII."""
    names = ["1m", "M", "Z", "a1", "m", "m2", "ma", "ä"]
    rows = [row for name in names for row in funded_by(name, "h1", "h2")]
    Random(seed).shuffle(rows)
    with world(tokens=[a_token(COIN)], rules=Rules(magic_limit=5)) as store:
        for row in rows:
            store.add_transfers(table([row]), "one by one")
        single, instant = draw(store), from_unix(END)
        (passed,) = map_batches(store, [COIN], [instant], MapOptions(), instant)
    assert nodes(single, "magic") == names[:5]
    assert passed["map_nodes"].to_pylist() == single["map_nodes"]
