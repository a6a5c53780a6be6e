"""Nodes as users have them, read by the documented commands: cases 40 to 44, and others of their kinds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.times import from_unix
from holderlake.engine.queries.balances import balances_as_of
from holderlake.engine.store.store import Store
from tests.helpers.chain.faulty import TOKEN, faulty_node
from tests.helpers.chain.scripted import ScriptedNode
from tests.helpers.commands import holderlake

HERE = Path(__file__).parent
LAST = 29_988
"""The last block with enough confirmations."""


def minted(last: int) -> dict[str, int]:
    """Return the balances after the block ``last`` of a node without a fault: block b mints b units."""
    sums: dict[str, int] = {}
    for block in range(50, last + 1, 50):
        holder = f"0x{block // 50 % 10 + 1:040x}"
        sums[holder] = sums.get(holder, 0) + block
    return sums


ALL = minted(LAST)


def modes(case: str, file: str = "modes.txt") -> list[str]:
    return (HERE / case / file).read_text(encoding="utf-8").split("\n")[:-1]


def run(home: Path, mode: str | ScriptedNode, command: str, *options: str) -> tuple[int, str]:
    """Run ``import node`` or ``import verify`` with a node, or one of this mode. Return exit code and output."""
    with faulty_node(mode) if isinstance(mode, str) else mode as node:
        chosen = ("--chain", "eth", "--token", TOKEN, *options, node.url)
        ended = holderlake("import", command, *chosen, env={"HOLDERLAKE_HOME": str(home)})
    return ended.returncode, ended.stdout + ended.stderr


def balances(home: Path) -> Mapping[str, int]:
    with Store(home / "engine") as store:
        holders = balances_as_of(store, "eth", TOKEN, from_unix(4_000_000_000)).holders
    return {address: balance for address, balance in holders if address != ZERO_ADDRESS}


def sizes_of(node: ScriptedNode) -> list[int]:
    """Return the number of blocks of each request for events."""
    return [last - first + 1 for first, last in node.ranges()]


@pytest.mark.later(long=1)
@pytest.mark.integration
@pytest.mark.parametrize("mode", [*modes("40-rpc-drpc-freetier"), *modes("41-rpc-limit-words")])
def test_limits_of_nodes_in_any_words_are_met(mode: str, tmp_path: Path) -> None:
    limit = int(mode.split(":")[3 if mode.startswith("http") else 2])
    node = faulty_node(mode)
    code, output = run(tmp_path, node, "node")
    assert (code, balances(tmp_path)) == (0, ALL), output
    sizes = sizes_of(node)
    answered = [size for size in sizes if size <= limit]
    assert sum(answered) >= 29_989
    assert len(sizes) - len(answered) < 16 + len(answered) // 8


WORDS = [
    "err:-32600:2000:You can make eth_getLogs requests with up to a 2K block range",
    "err:-32602:1000:eth_getLogs and eth_newFilter are limited to a 1,000 blocks range",
    "err:-32000:2048:requested too many blocks from 0 to 16777216, maximum is set to 2048",
    "err:-32602:1024:distance between fromBlock and toBlock must be at most 1024",
    "err:-32000:3000:One of the blocks specified in filter (fromBlock, toBlock) cannot be found. Window too big",
    "err:-32000:900:query returned more than 10000 results. Try with this block range [0x1, 0x2]",
    "err:-32603:800:backend response too large",
    "err:-32000:700:query timeout of 10 seconds exceeded",
    "err:-32002:650:context deadline exceeded",
    "err:-32005:600:",
    "err:-32700:2500:Request exceeds the allowance of the free tier; upgrade",
    "err:-1:1500:Span is capped",
    "err:35:1234:\u8bf7\u6c42\u7684\u533a\u5757\u8303\u56f4\u8fc7\u5927",
    "err:-32001:1777:nope",
    "http:413:-32000:1500:payload",
    "http:403:-32000:1800:Please narrow your search",
]


@pytest.mark.later(integration=1, long=2)
@pytest.mark.parametrize("mode", WORDS)
def test_other_words_for_a_limit_halve_the_range(mode: str, tmp_path: Path) -> None:
    code, output = run(tmp_path, mode, "node", "--to-block", "9000")
    assert (code, balances(tmp_path)) == (0, minted(9_000)), output


@pytest.mark.integration
def test_events_that_a_node_has_discarded_are_noticed_by_the_supply(tmp_path: Path) -> None:
    code, output = run(tmp_path, "pruned:20000", "node")
    stored = sum(balances(tmp_path).values())
    assert (code, 0 < stored < 8_985_000) == (0, True)
    assert f"is 8,985,000, but that of the stored transfers is {stored:,}: transfers are missing" in output
    assert "transfers are missing" not in run(tmp_path / "whole", "ok", "node")[1]


@pytest.mark.integration
def test_events_that_a_node_has_discarded_are_noticed_by_headers(tmp_path: Path) -> None:
    for mode, is_noticed in (("pruned:20000", True), ("ok", False)):
        with faulty_node(mode) as node:
            command = ("import", "node", "--chain", "eth", "--all-tokens", "--json", node.url)
            ended = holderlake(*command, env={"HOLDERLAKE_HOME": str(tmp_path / mode[:2])})
        notices = json.loads(ended.stdout)["notices"]
        assert any("the node has discarded events" in notice for notice in notices) == is_noticed, notices


@pytest.mark.integration
def test_an_answer_that_is_cut_off_halves_the_range(tmp_path: Path) -> None:
    code, output = run(tmp_path, "cut:700", "node", "--to-block", "1000")
    assert (code, balances(tmp_path)) == (0, minted(1_000)), output


@pytest.mark.later(integration=1)
@pytest.mark.parametrize("mode", modes("41-rpc-limit-words", "modes_that_fail.txt"))
def test_a_single_block_that_fails_ends_the_import(mode: str, tmp_path: Path) -> None:
    node = faulty_node(mode)
    code, output = run(tmp_path, node, "node")
    assert code == 1
    is_size = "limit exceeded" in mode
    assert ("does not serve eth_getLogs" in output) == is_size
    assert mode.rpartition(":")[2] in output
    assert len(node.ranges()) < (50 if is_size else 10)


@pytest.mark.long
def test_an_event_that_a_node_omits_is_found_by_receipts(tmp_path: Path) -> None:
    assert run(tmp_path, modes("42-rpc-omitted-log")[0], "node")[0] == 0
    code, output = run(tmp_path, "omit:20000", "verify")
    assert code == 3
    assert "From block 20,000 on: the node's eth_getLogs omits 1 events" in " ".join(output.split())
    code, output = run(tmp_path, "ok", "verify", "--repair")
    assert (code, balances(tmp_path)) == (0, ALL)


@pytest.mark.integration
@pytest.mark.parametrize(
    "lacks",
    [
        ("eth_getBlockReceipts",),
        pytest.param(("eth_getBlockReceipts", "eth_getTransactionReceipt"), marks=pytest.mark.long),
    ],
    ids=str,
)
def test_receipts_of_transactions_show_an_omitted_event(lacks: tuple[str, ...], tmp_path: Path) -> None:
    run(tmp_path, "omit:20000", "node")
    code, output = run(tmp_path, faulty_node("omit:20000", lacks=lacks), "verify")
    assert code == 3
    assert ("omits 1 events" in output) == (len(lacks) == 1)


@pytest.mark.long
def test_an_omitted_deposit_of_a_wrapped_coin_is_found(tmp_path: Path) -> None:
    (mode,) = modes("43-rpc-weth9")
    run(tmp_path, faulty_node(mode, omitted=20_050), "node")
    code, output = run(tmp_path, faulty_node(mode, omitted=20_050), "verify")
    assert code == 3
    assert "From block 20,050 on: the node's eth_getLogs omits 1 events" in " ".join(output.split())


@pytest.mark.long
def test_a_node_without_state_is_named_as_the_reason(tmp_path: Path) -> None:
    run(tmp_path, "ok", "node")
    code, output = run(tmp_path, faulty_node("ok", lacks=("state",)), "verify")
    assert "the node keeps no state at block 29,988; use an archive node" in " ".join(output.split())
    assert "--against" in output
    assert code == 0


@pytest.mark.long
def test_the_events_of_a_second_node_show_an_omitted_event(tmp_path: Path) -> None:
    run(tmp_path, "omit:20000", "node")
    with faulty_node("ok") as other:
        code, output = run(tmp_path, "omit:20000", "verify", "--against", other.url)
    assert code == 3
    assert "20,000" in output


@pytest.mark.long
def test_a_check_needs_no_options_after_an_import(tmp_path: Path) -> None:
    env = {"HOLDERLAKE_HOME": str(tmp_path)}
    with faulty_node("ok") as node:
        assert holderlake("import", "node", node.url, "--token", TOKEN, env=env).returncode == 0
        ended = holderlake("import", "verify", node.url, env=env)
    assert (ended.returncode, "599 events" in ended.stdout) == (0, True)
    assert "Compared 10 balances" in ended.stdout


@pytest.mark.long
def test_a_constant_ratio_is_called_rebasing(tmp_path: Path) -> None:
    run(tmp_path, "rebase", "node")
    code, output = run(tmp_path, "rebase", "verify")
    assert code == 3
    assert "rebasing" in output
    assert "not exact" in output
    said = " ".join(holderlake("doctor", env={"HOLDERLAKE_HOME": str(tmp_path)}).stdout.split())
    assert "1 token compared, 1 with other balances than the contract" in said


@pytest.mark.integration
def test_values_that_are_numbers_of_items_are_noticed(tmp_path: Path) -> None:
    code, output = run(tmp_path, "items", "node", "--to-block", "1000")
    assert code == 0
    assert f"value of token {TOKEN} on eth looks like numbers of items" in " ".join(output.split())


def test_deposits_and_withdrawals_of_a_wrapped_coin_mint_and_burn(tmp_path: Path) -> None:
    (mode,) = modes("43-rpc-weth9")
    code, output = run(tmp_path, mode, "node", "--json")
    assert (code, json.loads(output)["rows"]) == (0, 898)
    assert balances(tmp_path) == {f"0x{1:040x}": 270_100, f"0x{2:040x}": 14_950}
    assert run(tmp_path, mode, "verify")[0] == 0


def stored_token(home: Path) -> tuple[str, str, int]:
    with Store(home / "engine") as store:
        token = store.tokens([("eth", TOKEN)])["eth", TOKEN]
    return token.name, token.symbol, token.decimals


@pytest.mark.later(long=1)
@pytest.mark.integration
@pytest.mark.parametrize(
    ("kind", "described"),
    [
        ("bytes32", ("Maker", "MKR", 18)),
        ("nulls", ("LcDAI", "LcDAI", 8)),
        ("rtl", ("CDSU <b>x</b> \U0001f680", "CDSU <b>x</b> \U0001f680", 6)),
        ("huge", ('=HYPERLINK("http://x.example")', '=HYPERLINK("http://x.example")', 18)),
        ("empty", (TOKEN, TOKEN, 18)),
    ],
)
def test_odd_metadata_of_contracts_is_read(kind: str, described: tuple[str, str, int], tmp_path: Path) -> None:
    assert f"meta:{kind}" in modes("44-rpc-metadata")
    run(tmp_path, f"meta:{kind}", "node", "--to-block", "100")
    found = stored_token(tmp_path)
    assert (found[0], found[2]) == (described[0], described[2])


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["huge", "empty"])
def test_assumed_decimals_are_read_again_at_the_next_import(kind: str, tmp_path: Path) -> None:
    said = run(tmp_path, f"meta:{kind}", "node", "--to-block", "100")
    assert "No source gave the decimals of 1 token" in said[1]
    run(tmp_path, "meta:nulls", "node", "--to-block", "200")
    assert stored_token(tmp_path)[2] == 8
