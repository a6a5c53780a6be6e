"""``holderlake import portal`` reads the same transfers as ``import node``, whatever a portal does."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.engine.store.store import Store
from holderlake.sources.rpc.errors import Diverged, Refused
from holderlake.sources.rpc.portal import PortalNode
from tests.helpers.chain.importer import import_chain
from tests.helpers.chain.portal import Query, ScriptedPortal
from tests.helpers.chain.scripted import FIRST_TIME, TOKEN, MadeUpChain, ScriptedNode, send
from tests.helpers.processes import PATIENCE, start_holderlake

BLOCKS = 300
OPTIONS = {"confirmations": 0, "reorg_depth": 0, "concurrency": 1, "has_state": False}
Answer = Callable[[ScriptedPortal, BaseHTTPRequestHandler, Query], None]


def rows_of(root: Path) -> list[dict[str, Any]]:
    with Store(root) as store:
        return store.query("FROM read_parquet($files) ORDER BY block_number, log_index").to_pylist()


def expected() -> list[tuple[int, str, int]]:
    return [(block, str(block), FIRST_TIME + 12 * block) for block in range(1, BLOCKS + 1)]


def facts(rows: list[dict[str, Any]]) -> list[tuple[int, str, int]]:
    return [(row["block_number"], row["value"], row["block_time"]) for row in rows]


def import_from(root: Path, portal: ScriptedPortal, **more: Any) -> Any:
    with Store(root) as store:
        return import_chain(store, portal.url, evm_id=1, kind=PortalNode, **{"tokens": (TOKEN,), **OPTIONS, **more})


def command(home: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOLDERLAKE_HOME", str(home))
    monkeypatch.chdir(home)
    return CliRunner().invoke(app, ["import", *arguments, "--chain", "eth"])


@pytest.mark.integration
def test_the_store_equals_one_that_was_imported_from_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = MadeUpChain(BLOCKS)
    with ScriptedNode(chain.answer) as node, ScriptedPortal(chain, blocks=37) as portal:
        common = ("--token", TOKEN, "--json")
        by_node = command(tmp_path / "node", monkeypatch, "node", node.url, "--confirmations", "0", *common)
        by_portal = command(tmp_path / "portal", monkeypatch, "portal", portal.url, *common)
    reports = [json.loads(ended.stdout) for ended in (by_node, by_portal)]
    for name in ("last_block", "blocks", "logs", "added", "passed_over"):
        assert reports[0][name] == reports[1][name]
    assert [text for text in reports[0]["notices"] if not text.startswith("Nothing proves")] == reports[1]["notices"]
    assert reports[1]["added"] == BLOCKS
    assert rows_of(tmp_path / "node" / "engine") == rows_of(tmp_path / "portal" / "engine")
    assert len(portal.ranges()) == 1 + BLOCKS // 37


def test_all_tokens_are_read_in_a_range(tmp_path: Path) -> None:
    with ScriptedPortal(MadeUpChain(BLOCKS)) as portal:
        import_from(tmp_path, portal, tokens=None, first_block=20, last_block=39)
    assert facts(rows_of(tmp_path)) == expected()[19:39]
    assert portal.ranges() == [(20, 39)]


def _cut_line(portal: ScriptedPortal, handler: BaseHTTPRequestHandler, query: Query) -> None:
    send(handler, portal.stream(query)[:-20])


def _cut_gzip(portal: ScriptedPortal, handler: BaseHTTPRequestHandler, query: Query) -> None:
    send(handler, gzip.compress(portal.stream(query))[:-30], Content_Encoding="gzip")


def _cut_connection(portal: ScriptedPortal, handler: BaseHTTPRequestHandler, query: Query) -> None:
    raw = portal.stream(query)
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(raw)))
    handler.end_headers()
    handler.wfile.write(raw[: len(raw) // 2])
    handler.close_connection = True


def _without_first_block(portal: ScriptedPortal, handler: BaseHTTPRequestHandler, query: Query) -> None:
    send(handler, b"".join(portal.stream(query).splitlines(keepends=True)[1:]) or b"\n")


def _out_of_order(portal: ScriptedPortal, handler: BaseHTTPRequestHandler, query: Query) -> None:
    first, second, third, *more = portal.stream(query).splitlines(keepends=True)
    send(handler, b"".join([first, third, second, *more]))


def _repeated(portal: ScriptedPortal, handler: BaseHTTPRequestHandler, query: Query) -> None:
    first, second, *more = portal.stream(query).splitlines(keepends=True)
    send(handler, b"".join([first, second, second, *more]))


def _beyond_the_range(portal: ScriptedPortal, handler: BaseHTTPRequestHandler, query: Query) -> None:
    last_block = query["toBlock"]
    send(
        handler, portal.stream(query) + portal.stream(query | {"fromBlock": last_block + 1, "toBlock": last_block + 1})
    )


ONCE: dict[str, Answer] = {
    "not yet": lambda _, handler, __: send(handler, b"", 204),
    "nothing": lambda _, handler, __: send(handler, b""),
    "too many requests": lambda _, handler, __: send(handler, b"slow down", 429, Retry_After="0"),
    "busy": lambda _, handler, __: send(handler, b"all workers are busy", 503, Retry_After="0"),
    "failure": lambda _, handler, __: send(handler, b"unknown failure", 500),
    "time-out": lambda _, handler, __: send(handler, b"", 504),
    "web page": lambda _, handler, __: send(handler, b"<html>"),
    "other JSON": lambda _, handler, __: send(handler, b'{"header": {"number": "0x1"}}\n'),
    "cut line": _cut_line,
    "cut gzip": _cut_gzip,
    "cut connection": _cut_connection,
    "without first block": _without_first_block,
    "out of order": _out_of_order,
    "repeated": _repeated,
    "beyond the range": _beyond_the_range,
}


@pytest.mark.parametrize("fault", ONCE)
def test_after_a_fault_the_portal_is_asked_again(tmp_path: Path, fault: str) -> None:
    failed: list[Query] = []

    def before(handler: BaseHTTPRequestHandler, query: Query) -> bool:
        if failed or query["fromBlock"] < 80 or "logs" not in query:
            return False
        failed.append(query)
        ONCE[fault](portal, handler, query)
        return True

    with ScriptedPortal(MadeUpChain(BLOCKS), blocks=40, before=before) as portal:
        report = import_from(tmp_path, portal, blocks=60)
    assert failed
    assert (report.last_block, report.duplicates) == (BLOCKS, 0)
    assert facts(rows_of(tmp_path)) == expected()


def test_a_refused_query_says_why(tmp_path: Path) -> None:
    def before(handler: BaseHTTPRequestHandler, query: Query) -> bool:
        if "logs" not in query:
            return False
        send(handler, b"start block is below 5000 at https://portal.example/KEY", 400)
        return True

    with (
        ScriptedPortal(MadeUpChain(BLOCKS), before=before) as portal,
        pytest.raises(Refused, match="start block is below 5000") as refused,
    ):
        import_from(tmp_path, portal)
    assert "KEY" not in str(refused.value)
    assert "/datasets" not in str(refused.value)


def test_a_repeated_import_reads_only_new_blocks(tmp_path: Path) -> None:
    chain = MadeUpChain(BLOCKS - 10)
    with ScriptedPortal(chain) as portal:
        import_from(tmp_path, portal)
        portal.queries.clear()
        chain.head = BLOCKS
        import_from(tmp_path, portal)
    assert portal.ranges() == [(BLOCKS - 9, BLOCKS)]
    assert facts(rows_of(tmp_path)) == expected()


@pytest.mark.integration
def test_a_killed_import_resumes(tmp_path: Path) -> None:
    reached: list[Query] = []

    def before(handler: BaseHTTPRequestHandler, query: Query) -> bool:
        if query["fromBlock"] < 150 or reached or "logs" not in query:
            return False
        reached.append(query)
        process.kill()
        process.wait(PATIENCE)
        return False

    env = os.environ | {
        "HOLDERLAKE_HOME": str(tmp_path),
        "HOLDERLAKE_SOURCES__RPC__ETH__COMMIT_ROWS": "50",
        "HOLDERLAKE_SOURCES__RPC__ETH__BLOCKS": "20",
    }
    with ScriptedPortal(MadeUpChain(BLOCKS), before=before) as portal:
        arguments = ("import", "portal", portal.url, "--chain", "eth", "--token", TOKEN, "--json")
        process = start_holderlake(*arguments, env=env)
        process.wait(PATIENCE)
        assert reached
        portal.queries.clear()
        assert start_holderlake(*arguments, env=env).wait(PATIENCE) == 0
    assert portal.ranges()[0][0] > 50
    assert facts(rows_of(tmp_path / "engine")) == expected()


def test_a_node_describes_the_tokens_later(tmp_path: Path) -> None:
    chain = MadeUpChain(BLOCKS)

    def answer(method: str, params: list[Any]) -> Any:
        return f"0x{6:064x}" if method == "eth_call" else chain.answer(method, params)

    key = ("eth", TOKEN)
    with ScriptedPortal(chain) as portal, ScriptedNode(answer) as node, Store(tmp_path) as store:
        chosen = {"chain": "eth", "evm_id": 1, "tokens": (TOKEN,)}
        report = import_chain(store, portal.url, kind=PortalNode, **chosen, **OPTIONS)
        assert store.tokens([key])[key].has_assumed_decimals
        assert "decimals" in report.notices[0]
        import_chain(store, node.url, **chosen)
        assert (store.tokens([key])[key].decimals, node.ranges()) == (6, [])


def test_a_chain_that_differs_from_the_imported_one_is_refused(tmp_path: Path) -> None:
    with ScriptedNode(MadeUpChain(BLOCKS).answer) as node, Store(tmp_path) as store:
        import_chain(store, node.url, evm_id=1, tokens=(TOKEN,))
    with ScriptedPortal(MadeUpChain(BLOCKS, chain_id=56)) as portal, pytest.raises(Diverged):
        import_from(tmp_path, portal)
    assert facts(rows_of(tmp_path)) == expected()


def test_what_a_portal_does_not_have_is_refused_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedPortal(MadeUpChain(BLOCKS)) as portal:
        coin = command(tmp_path, monkeypatch, "portal", portal.url, "--token", "native")
        arguments = ["import", "portal", portal.url, "--chain", "mychain", "--token", TOKEN]
        unknown = CliRunner().invoke(app, arguments)
        unnamed = CliRunner().invoke(app, ["import", "portal", portal.url, "--token", TOKEN])
    assert (unnamed.exit_code, "--chain eth" in unnamed.output) == (2, True)
    assert "the chain's coin" in str(coin.exception)
    assert "chain 'mychain' is unknown" in str(unknown.exception)
    assert portal.queries == []
