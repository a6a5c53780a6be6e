"""Endpoints that lie, limit, stall or change: the outcome is right or an error in words, and the store is intact."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from holderlake.engine.store.store import Store
from holderlake.sources.rpc.errors import (
    ChainMoved,
    Diverged,
    InvalidAnswer,
    Refused,
    RpcError,
    Unavailable,
    WrongChain,
)
from holderlake.sources.rpc.undone import record_undone, undone_after
from tests.engine.world import table, transfer
from tests.helpers.chain.importer import import_chain
from tests.helpers.chain.scripted import TOKEN, Answer, Fault, MadeUpChain, ScriptedNode, Wait, send

BLOCKS = 300
Serve = Callable[..., ScriptedNode]
Calls = list[dict[str, Any]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as running:
        yield lambda *arguments, **more: running.enter_context(ScriptedNode(*arguments, **more))


def honest(**more: Any) -> MadeUpChain:
    return MadeUpChain(BLOCKS, **more)


def lying(method: str, lie: Callable[[list[Any], Any], Any], chain: MadeUpChain | None = None) -> Answer:
    """The answers of a chain, where those to one method are made false by ``lie``, of parameters and the true one."""
    truth = chain or honest()

    def answer(asked: str, params: list[Any]) -> Any:
        result = truth.answer(asked, params)
        return lie(params, result) if asked == method else result

    return answer


def span(params: list[Any]) -> int:
    return int(params[0]["toBlock"], 16) - int(params[0]["fromBlock"], 16) + 1


def values(store: Store) -> list[int]:
    found = store.query("SELECT value::BIGINT AS value FROM read_parquet($files) ORDER BY block_number, log_index")
    return [int(value) for value in found["value"].to_pylist()]


WHOLE = list(range(1, BLOCKS + 1))

LIES: dict[str, Answer] = {
    "events of other blocks": lying("eth_getLogs", lambda _, result: [*result, *honest().logs(BLOCKS - 1)[:1]] * 2),
    "events of no block": lying("eth_getLogs", lambda _, result: [log | {"blockNumber": "soon"} for log in result]),
    "events of another token": lying("eth_getLogs", lambda _, result: [log | {"address": "0x12"} for log in result]),
    "events of another kind": lying("eth_getLogs", lambda _, result: [log | {"topics": ["0x12"]} for log in result]),
    "events that were removed": lying("eth_getLogs", lambda _, result: [log | {"removed": True} for log in result]),
    "events that are no list": lying("eth_getLogs", lambda *_: "none"),
    "events that are null": lying("eth_getLogs", lambda *_: None),
    "null blocks": lying("eth_getBlockByNumber", lambda params, result: result if params[0] == "0x0" else None),
    "other blocks": lying("eth_getBlockByNumber", lambda params, result: result | {"number": "0x7"}),
    "blocks that don't follow each other": lying(
        "eth_getBlockByNumber", lambda _, result: result | {"parentHash": "0x1"}
    ),
    "no chain id": lying("eth_chainId", lambda *_: "mainnet"),
}


@pytest.mark.later(integration=5)
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused_in_words_and_nothing_of_it_is_stored(lie: str, store: Store, serve: Serve) -> None:
    node = serve(LIES[lie])
    with pytest.raises(RpcError, match=r"\w+ \w+ \w+"):
        import_chain(store, node.url, tokens=(TOKEN,), blocks=100)
    assert set(values(store)) <= set(WHOLE)
    assert len(values(store)) == len(set(values(store)))


@pytest.mark.later(integration=1, long=3)
@pytest.mark.parametrize("lie", LIES)
def test_an_honest_endpoint_takes_over_from_one_that_lies(lie: str, store: Store, serve: Serve) -> None:
    liar, other = serve(LIES[lie]), serve(honest().answer)
    report = import_chain(store, liar.url, other.url, evm_id=1, tokens=(TOKEN,), blocks=100)
    assert values(store) == WHOLE
    assert (report.added, report.last_block) == (BLOCKS, BLOCKS)


def test_a_method_that_the_node_lacks_is_asked_for_once(store: Store, serve: Serve) -> None:
    asked: Counter[str] = Counter()

    def counted(method: str, params: list[Any]) -> Any:
        asked[method] += 1
        return honest().answer(method, params)

    with pytest.raises(RpcError, match="eth_getBlockReceipts does not exist"):
        import_chain(store, serve(counted).url, tokens=("native",), first_block=1, last_block=2)
    assert asked["debug_traceBlockByNumber"] == 2, "one call each for the first and the last block"


def test_a_deep_reorganisation_is_found_by_every_ten_thousandth_hash(store: Store, serve: Serve) -> None:
    chain = MadeUpChain(25_000, logs_a_block=0)
    node = serve(chain.answer)
    import_chain(store, node.url, tokens=(TOKEN,), blocks=3_000)
    chain.fork = 21_000
    report = import_chain(store, node.url, tokens=(TOKEN,), blocks=3_000)
    assert report.undone_after == 20_000


def test_undone_blocks_are_those_of_the_chain_since_the_time(store: Store) -> None:
    store.add_transfers(
        table([transfer("mint -> a", at=5), transfer("mint -> a", at=9, token=("bsc", "coin"))]), "file"
    )
    first, second = datetime(2026, 6, 1), datetime(2026, 6, 2)
    record_undone(store, "bsc", 7, first)
    record_undone(store, "eth", 3, second)
    asked = [("eth", first), ("bsc", first), ("eth", second), ("bsc", second)]
    assert [undone_after(store.root, *one) for one in asked] == [4, 8, 4, None]


def test_a_limit_for_one_block_is_an_error_that_says_so(store: Store, serve: Serve) -> None:
    def limited(params: list[Any], result: Any) -> Any:
        raise Fault(-32005, "query returned more than 10000 results")

    node = serve(lying("eth_getLogs", limited))
    with pytest.raises(RpcError, match="more than 10000 results"):
        import_chain(store, node.url, tokens=(TOKEN,))
    assert values(store) == []


def test_an_answer_cut_off_without_a_word_is_noticed(store: Store, serve: Serve) -> None:
    crowded = honest(logs_a_block=9)
    node = serve(lying("eth_getLogs", lambda _, result: result[:1_000], crowded))
    import_chain(store, node.url, tokens=(TOKEN,))
    assert len(values(store)) == 9 * BLOCKS


@pytest.mark.integration
def test_a_stalling_endpoint_is_asked_for_less(store: Store, serve: Serve) -> None:
    def stalling(params: list[Any], result: Any) -> Any:
        if span(params) > 80:
            raise Wait
        return result

    node = serve(lying("eth_getLogs", stalling))
    import_chain(store, node.url, tokens=(TOKEN,), blocks=100, timeout=1.0)
    assert values(store) == WHOLE


def half(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'[{"jsonrpc": "2.0", "id": 1, "resu')
    handler.close_connection = True


FAILURES: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {
    "half a body": half,
    "error 500": lambda handler: send(handler, b"<html>sorry</html>", 500),
    "error 503": lambda handler: send(handler, b"", 503, Retry_After="0"),
    "error 429": lambda handler: send(handler, b"", 429, Retry_After="0"),
    "a wait until a past date": lambda handler: send(handler, b"", 503, Retry_After="Thu, 01 Jan 1970 00:00:00 GMT"),
    "a wait in unknown digits": lambda handler: send(handler, b"", 503, Retry_After="\u00b2"),
    "a page": lambda handler: send(handler, b"<html>welcome</html>"),
    "an answer without id": lambda handler: send(handler, [{"jsonrpc": "2.0", "id": None, "result": "0x1"}]),
    "too many requests": lambda handler: send(
        handler, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32029, "message": "Too Many Requests per second"}}
    ),
}


@pytest.mark.later(integration=1, long=2)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_that_passes_is_tried_again(failure: str, store: Store, serve: Serve) -> None:
    seen: list[int] = []

    def now_and_then(handler: BaseHTTPRequestHandler, _: Calls) -> bool:
        seen.append(1)
        if len(seen) % 2:
            FAILURES[failure](handler)
        return bool(len(seen) % 2)

    node = serve(honest().answer, now_and_then)
    import_chain(store, node.url, tokens=(TOKEN,), concurrency=1)
    assert values(store) == WHOLE


@pytest.mark.later(integration=1)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_permanent_failure_keeps_what_was_stored(failure: str, store: Store, serve: Serve) -> None:
    good = serve(honest().answer)
    import_chain(store, good.url, tokens=(TOKEN,), last_block=100)

    def always(handler: BaseHTTPRequestHandler, _: Calls) -> bool:
        FAILURES[failure](handler)
        return True

    bad = serve(honest().answer, always)
    with pytest.raises((Unavailable, InvalidAnswer), match=r"127\.0\.0\.1"):
        import_chain(store, bad.url, tokens=(TOKEN,))
    assert values(store) == WHOLE[:100]


def test_an_endpoint_of_another_chain_is_rejected_and_reported(store: Store, serve: Serve) -> None:
    wrong, right = serve(honest(chain_id=56).answer), serve(honest().answer)
    report = import_chain(store, wrong.url, right.url, evm_id=1, tokens=(TOKEN,))
    assert values(store) == WHOLE
    assert "has chain id 56, not 1" in report.rejected[0]
    with pytest.raises(WrongChain, match="56"):
        import_chain(store, wrong.url, evm_id=1, tokens=(TOKEN,))


def test_an_endpoint_that_changes_its_chain_adds_no_wrong_rows(store: Store, serve: Serve) -> None:
    first, second = honest(), honest(chain_id=56, fork=1)
    asked: list[int] = []

    def turning(method: str, params: list[Any]) -> Any:
        asked.append(1)
        return (first if len(asked) < 30 else second).answer(method, params)

    node = serve(turning)
    with pytest.raises(WrongChain, match="has chain id 56, not 1"):
        import_chain(store, node.url, evm_id=1, tokens=(TOKEN,), blocks=10, most_blocks=10, reorg_depth=0)
    assert values(store) == WHOLE[: len(values(store))]
    other = serve(first.answer)
    import_chain(store, other.url, evm_id=1, tokens=(TOKEN,))
    assert values(store) == WHOLE


def test_a_chain_name_stays_with_its_chain(store: Store, serve: Serve) -> None:
    import_chain(store, serve(honest().answer).url, tokens=(TOKEN,))
    with pytest.raises(WrongChain, match="was imported from chain id 1, but the node has chain id 56"):
        import_chain(store, serve(honest(chain_id=56).answer).url, tokens=(TOKEN,))


def test_a_node_that_was_reset_is_refused(store: Store, serve: Serve) -> None:
    import_chain(store, serve(honest().answer).url, tokens=(TOKEN,))
    with pytest.raises(Diverged, match="another network, or was reset"):
        import_chain(store, serve(honest(fork=0).answer).url, tokens=(TOKEN,))
    assert values(store) == WHOLE


@pytest.mark.parametrize(
    ("most", "words"), [(1, "batch requests are not supported"), (10, "batch too large: at most 10 calls")]
)
def test_an_endpoint_is_sent_batches_that_it_takes(most: int, words: str, store: Store, serve: Serve) -> None:
    def limited(handler: BaseHTTPRequestHandler, calls: Calls) -> bool:
        if len(calls) > most:
            send(handler, {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": words}})
        return len(calls) > most

    import_chain(store, serve(honest().answer, limited).url, tokens=(TOKEN,), reorg_depth=5)
    assert values(store) == WHOLE


def test_what_one_endpoint_refuses_another_is_asked_for(store: Store, serve: Serve) -> None:
    def refuse(params: list[Any], result: Any) -> Any:
        raise Fault(-32000, "history has been pruned for this block")

    pruned, whole = serve(lying("eth_getLogs", refuse)), serve(honest().answer)
    import_chain(store, pruned.url, whole.url, tokens=(TOKEN,))
    assert values(store) == WHOLE


def test_times_come_from_the_blocks_where_events_have_none(store: Store, serve: Serve) -> None:
    node = serve(honest(with_times=False).answer)
    import_chain(store, node.url, tokens=(TOKEN,), reorg_depth=5)
    history = store.history("test", TOKEN)
    assert history is not None
    assert (history.first_time, history.last_time) == (1_700_000_012, 1_700_000_000 + 12 * BLOCKS)


@pytest.mark.long
def test_events_of_a_chain_that_moves_for_ever_are_never_believed(store: Store, serve: Serve) -> None:
    lie = lying("eth_getLogs", lambda _, result: [log | {"blockHash": f"0x{'12' * 32}"} for log in result])
    with pytest.raises(ChainMoved, match="the chain was reorganised 20 times"):
        import_chain(store, serve(lie).url, tokens=(TOKEN,))
    assert values(store) == []


def test_a_reorganisation_is_rolled_back_and_read_again(store: Store, serve: Serve) -> None:
    chain = honest()
    node = serve(chain.answer)
    import_chain(store, node.url, tokens=(TOKEN,))
    chain.fork, chain.head = BLOCKS - 9, BLOCKS + 5
    node.asked.clear()
    report = import_chain(store, node.url, tokens=(TOKEN,))
    assert (report.reorgs, report.removed) == (1, 10)
    assert node.ranges() == [(BLOCKS - 9, BLOCKS + 5)]
    assert values(store) == [*range(1, BLOCKS - 9), *range(BLOCKS - 8, BLOCKS + 7)]


@pytest.mark.integration
def test_a_reorganisation_during_an_import_leaves_no_old_rows(store: Store, serve: Serve) -> None:
    chain = honest()

    def moving(method: str, params: list[Any]) -> Any:
        if method == "eth_getLogs" and int(params[0]["toBlock"], 16) >= 250:
            chain.fork = 200
        return chain.answer(method, params)

    node = serve(moving)
    import_chain(store, node.url, tokens=(TOKEN,), blocks=20, most_blocks=20, concurrency=2, commit_rows=1)
    assert values(store) == [*range(1, 200), *range(201, BLOCKS + 2)]


@pytest.mark.integration
def test_a_reorganisation_also_removes_rows_of_other_tokens(store: Store, serve: Serve) -> None:
    chain = honest()

    def moving(method: str, params: list[Any]) -> Any:
        if method == "eth_getLogs" and int(params[0]["fromBlock"], 16) >= 150:
            chain.fork = 200
        return chain.answer(method, params)

    import_chain(store, serve(chain.answer).url, tokens=(TOKEN,))
    import_chain(store, serve(moving).url, blocks=50, most_blocks=50, concurrency=1)
    assert values(store) == [*range(1, 200), *range(201, BLOCKS + 2)]


def test_what_was_read_is_never_asked_for_again(store: Store, serve: Serve) -> None:
    node = serve(honest().answer)
    import_chain(store, node.url, tokens=(TOKEN,), first_block=50, last_block=100, blocks=20)
    import_chain(store, node.url, tokens=(TOKEN,), blocks=20)
    read = [block for first, last in node.ranges() for block in range(first, last + 1)]
    assert sorted(read) == list(range(BLOCKS + 1))
    assert values(store) == WHOLE


def test_only_blocks_that_are_deep_enough_are_read(store: Store, serve: Serve) -> None:
    report = import_chain(store, serve(honest().answer).url, tokens=(TOKEN,), confirmations=12)
    assert report.last_block == BLOCKS - 12
    assert values(store) == WHOLE[:-12]


def test_events_that_only_look_like_transfers_are_passed_over_and_counted(store: Store, serve: Serve) -> None:
    odd = [
        {"data": "0x12"},
        {"data": "0xzz"},
        {"topics": [honest().logs(1)[0]["topics"][0]]},
        {"data": "0x" + "0" * 128},
    ]
    lie = lying("eth_getLogs", lambda _, result: [*result, *(result[-1] | {"logIndex": "0x9"} | one for one in odd)])
    report = import_chain(store, serve(lie).url, tokens=(TOKEN,))
    assert report.passed_over == len(odd)
    assert values(store) == WHOLE


def test_a_key_in_an_endpoints_address_appears_nowhere(
    store: Store, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "very-secret-key"

    def repeating(handler: BaseHTTPRequestHandler, _: Calls) -> bool:
        assert secret in handler.path
        send(handler, {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": f"no http://x{handler.path} here"}})
        return True

    good = serve(honest().answer, path=f"/v2/{secret}?key={secret}")
    report = import_chain(store, good.url, tokens=(TOKEN,))
    bad = serve(honest().answer, repeating, path=f"/v2/{secret}")
    with pytest.raises(Refused) as caught:
        import_chain(store, bad.url, tokens=(TOKEN,))
    closed = bad.url.replace("127.0.0.1", f"user:{secret}@127.0.0.1").replace("/v2", ":1/v2", 1)
    with pytest.raises((Unavailable, ValueError)) as unreachable:
        import_chain(store, closed, tokens=(TOKEN,))
    files = b"".join(path.read_bytes() for path in store.root.rglob("*") if path.is_file())
    result = f"{report} {caught.value} {unreachable.value} {caplog.text}"
    assert secret not in result
    assert secret.encode() not in files
