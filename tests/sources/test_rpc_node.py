"""Imports from a real node: all token standards, the native coin, and metadata of contracts."""

from __future__ import annotations

import asyncio
from http.server import BaseHTTPRequestHandler
from typing import Any

from pydantic import SecretStr

from holderlake.engine.catalog.labels import labels_of
from holderlake.engine.store.store import Store
from holderlake.sources.rpc.node import Node, first_block_from
from tests.helpers.chain.anvil import GENESIS_TIME, SENDER, Anvil, call
from tests.helpers.chain.importer import import_chain
from tests.helpers.chain.scripted import ScriptedNode, send, way_to

ZERO = "0x" + "00" * 20
ANN, BOB = "0x" + "a1" * 20, "0x" + "b0" * 20
GREATEST = 2**256 - 1


def rows(store: Store, token: str) -> list[tuple[Any, ...]]:
    sql = """
        SELECT token_standard, from_address, to_address, value, token_id FROM read_parquet($files)
        WHERE token_address = $token ORDER BY block_number, log_index, token_id
    """
    return [tuple(row.values()) for row in store.query(sql, {"token": token}).to_pylist()]


def test_transfers_of_every_standard_are_read_exactly(anvil: Anvil, store: Store) -> None:
    coin, item, goods = (anvil.deploy(name) for name in ("Coin", "Item", "Goods"))
    anvil.mine(
        [
            call("Coin", coin, "mint", ANN, GREATEST),
            call("Item", item, "move", ZERO, ANN, GREATEST),
            call("Goods", goods, "move", ZERO, ANN, 1, 100),
            call("Goods", goods, "moveBatch", ANN, BOB, [1, 2, 1], [3, 4, 5]),
        ]
    )
    import_chain(store, anvil.url)
    assert rows(store, coin) == [("erc20", ZERO, ANN, str(GREATEST), None)]
    assert rows(store, item) == [("erc721", ZERO, ANN, "1", str(GREATEST))]
    assert rows(store, goods) == [
        ("erc1155", ZERO, ANN, "100", "1"),
        ("erc1155", ANN, BOB, "8", "1"),
        ("erc1155", ANN, BOB, "4", "2"),
    ]


def pay(anvil: Anvil) -> str:
    """Transfer coins directly, through a contract, in a reverted call, and in a failed transaction."""
    payer = anvil.deploy("Payer")
    anvil.mine(
        [
            {"to": ANN, "value": hex(10**20)},
            call("Payer", payer, "pay", BOB) | {"value": "0x7"},
            call("Payer", payer, "payInVain", BOB) | {"value": "0x8"},
            call("Payer", payer, "payAndFail", BOB) | {"value": "0x9"},
        ]
    )
    return payer


def test_native_transfers_include_calls_and_exclude_reverted_ones(anvil: Anvil, store: Store) -> None:
    payer = pay(anvil)
    report = import_chain(store, anvil.url, tokens=("native",))
    assert report.values_from == "debug_traceBlockByNumber"
    assert rows(store, "native") == [
        ("native", SENDER, ANN, str(10**20), None),
        ("native", SENDER, payer, "7", None),
        ("native", payer, BOB, "7", None),
        ("native", SENDER, payer, "8", None),
    ]


def test_ranges_with_too_many_transactions_are_split(anvil: Anvil, store: Store) -> None:
    pay(anvil)
    anvil.mine_many([(GENESIS_TIME + 100 + block, [{"to": BOB, "value": "0x1"}]) for block in range(60)])
    with way_to(anvil.url) as answers:

        def limited(handler: BaseHTTPRequestHandler, calls: list[dict[str, Any]]) -> bool:
            is_much = sum(call["method"] == "debug_traceBlockByNumber" for call in calls) > 3
            if is_much:
                send(handler, b"", 413)
            return is_much

        with ScriptedNode(answers, limited) as node:
            import_chain(store, node.url, tokens=("native",))
    history = store.history("test", "native")
    assert history is not None
    assert history.transfers == 4 + 60


def test_coins_are_read_from_transactions_alone_where_nothing_is_traced(anvil: Anvil, store: Store) -> None:
    payer = pay(anvil)
    import_chain(store, anvil.url, tokens=("native",), traced=False)
    outer = [
        ("native", SENDER, ANN, str(10**20), None),
        ("native", SENDER, payer, "7", None),
        ("native", SENDER, payer, "8", None),
    ]
    assert rows(store, "native") == outer
    report = import_chain(store, anvil.url, tokens=("native",))
    assert (report.added, report.duplicates) == (1, 3)


def test_tokens_and_contracts_are_described_by_themselves_and_asked_once(anvil: Anvil, store: Store) -> None:
    coin, old, goods, payer = (anvil.deploy(name) for name in ("Coin", "OldCoin", "Goods", "Payer"))
    anvil.mine(
        [
            call("Coin", coin, "mint", payer, 5),
            call("Coin", coin, "mint", ANN, 5),
            call("OldCoin", old, "mint", ANN, 5),
            call("Goods", goods, "move", ZERO, ANN, 1, 1),
        ]
    )
    tokens = (coin, old, goods)
    report = import_chain(store, anvil.url, tokens=tokens)
    tokens_in_store = [store.token("test", token) for token in tokens]
    assert (
        [(one.name, one.symbol, one.decimals) for one in tokens_in_store if one]
        == [
            ("Lake Coin", "LAKE", 6),
            ("Old Coin", "OLD", 18),  # its decimals are no number of decimals
            (goods, goods[:8], 0),  # it has no metadata
        ]
    )
    assert (report.tokens_described, report.contracts_found) == (2, 1)
    assert list(store.labels([payer, ANN])) == [payer]
    assert store.read(labels_of, payer)[0].source == "rpc"
    with way_to(anvil.url) as answers, ScriptedNode(answers) as heard:
        import_chain(store, heard.url, tokens=tokens)
        methods = [method for method, _ in heard.asked]
        assert set(methods) == {"eth_chainId", "eth_blockNumber", "eth_getBlockByNumber", "eth_call"}
        assert methods.count("eth_call") == 3, "only the token whose contract did not report its decimals"


def test_the_first_block_of_a_second_is_found(anvil: Anvil) -> None:
    times = [GENESIS_TIME + 10 * block**2 for block in range(1, 60)]
    anvil.mine_many([(at, []) for at in times])

    async def find(second: int) -> int:
        async with Node([SecretStr(anvil.url)]) as node:
            return await first_block_from(node, second, 59)

    for second in (0, GENESIS_TIME, times[0], times[30] - 1, times[30], times[30] + 1, times[-1], times[-1] + 1):
        expected = next((block for block, at in enumerate([GENESIS_TIME, *times]) if at >= second), 60)
        assert asyncio.run(find(second)) == expected
