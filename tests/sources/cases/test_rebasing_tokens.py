"""Balances of a token that changes them without transfers, read from its contract with ``--balances-at``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.times import from_unix
from holderlake.engine.queries.balances import balances_as_of
from holderlake.engine.store.store import Store
from tests.helpers.chain.faulty import FIRST_TIME, SECONDS, TOKEN, faulty_node
from tests.helpers.commands import holderlake
from tests.sources.cases.test_node_cases import minted

pytestmark = pytest.mark.integration


def time_of(block: int) -> int:
    return FIRST_TIME + SECONDS * block


def read(home: Path, *options: str, lacks: tuple[str, ...] = ()) -> tuple[int, str]:
    """Import from the node whose balances are twice what the events say; return exit code and output."""
    with faulty_node("rebase", 600, lacks) as node:
        command = ("import", "node", "--chain", "eth", "--token", TOKEN, *options, node.url)
        ended = holderlake(*command, env={"HOLDERLAKE_HOME": str(home)})
    return ended.returncode, ended.stdout + ended.stderr


def balances(home: Path, second: int) -> dict[str, int]:
    with Store(home / "engine") as store:
        holders = balances_as_of(store, "eth", TOKEN, from_unix(second)).holders
    return {address: balance for address, balance in holders if address != ZERO_ADDRESS}


def twice(block: int) -> dict[str, int]:
    return {address: 2 * value for address, value in minted(block).items()}


def at(*blocks: int) -> list[str]:
    return [text for block in blocks for text in ("--balances-at", str(time_of(block) + 5))]


def test_balances_are_exact_at_the_chosen_instants_in_any_order(tmp_path: Path) -> None:
    read(tmp_path, *at(400))
    assert read(tmp_path, *at(200, 400))[0] == 0
    assert read(tmp_path, *at(300))[0] == 0
    for block in (200, 300, 400):
        assert balances(tmp_path, time_of(block)) == twice(block)
    assert balances(tmp_path, time_of(199)) == minted(199)


def test_transfers_after_an_instant_add_to_its_balances(tmp_path: Path) -> None:
    read(tmp_path, *at(200))
    expected = {holder: value - minted(200).get(holder, 0) for holder, value in minted(350).items()}
    assert balances(tmp_path, time_of(350)) == {
        holder: value + twice(200).get(holder, 0) for holder, value in expected.items()
    }


def test_corrections_are_no_transfers(tmp_path: Path) -> None:
    read(tmp_path, *at(200))
    with Store(tmp_path / "engine") as store:
        (history,) = store.histories()
        rows = store.query("SELECT count(*) AS rows FROM read_parquet($files)")["rows"].to_pylist()
    assert (history.transfers, rows) == (588 // 50, [588 // 50])


def test_new_transfers_before_an_instant_remove_its_balances(tmp_path: Path) -> None:
    read(tmp_path, *at(200, 400))
    late = tmp_path / "late.csv"
    late.write_text(
        "chain,token_address,from_address,to_address,value,block_number,block_time,tx_hash,log_index\n"
        f"eth,{TOKEN},{ZERO_ADDRESS},0x{99:040x},7,310,{time_of(310)},0x{99:064x},0\n"
    )
    ended = holderlake("import", "files", str(late), env={"HOLDERLAKE_HOME": str(tmp_path)})
    assert "--balances-at had read from block 310 on were removed" in " ".join(ended.stderr.split())
    assert balances(tmp_path, time_of(200)) == twice(200)
    assert balances(tmp_path, time_of(400))[f"0x{99:040x}"] == 7
    read(tmp_path, *at(400))
    assert balances(tmp_path, time_of(400)) == twice(400)


def test_check_passes_where_balances_were_read(tmp_path: Path) -> None:
    read(tmp_path, *at(580), "--to-block", "580")
    with faulty_node("rebase", 600) as node:
        ended = holderlake("import", "verify", node.url, "--json", env={"HOLDERLAKE_HOME": str(tmp_path)})
    assert (ended.returncode, json.loads(ended.stdout)["equal"]) == (0, [TOKEN])


@pytest.mark.parametrize(
    ("options", "lacks", "words"),
    [
        (at(200), ("state",), "keeps no state of block 200"),
        (at(595), (), "block 588 is the last one"),
        (["--balances-at", "2010-01-01"], (), "no block until 2010-01-01"),
        ([*at(200), "--all-tokens"], (), "name them with --token"),
    ],
)
def test_instant_without_balances_is_refused_in_a_sentence(
    options: list[str], lacks: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    code, output = read(tmp_path, *options, lacks=lacks)
    assert code != 0
    assert words in " ".join(output.split())


def test_next_node_answers_for_one_that_has_pruned_the_state(tmp_path: Path) -> None:
    with faulty_node("rebase", 600, ("state",)) as pruned:
        assert read(tmp_path, *at(200), pruned.url)[0] == 0
    assert balances(tmp_path, time_of(200)) == twice(200)


def test_rebuild_names_the_corrections_to_be_read_again(tmp_path: Path) -> None:
    read(tmp_path, *at(200, 300))
    for name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm", "catalog-copy.sqlite"):
        (tmp_path / "engine" / name).unlink(missing_ok=True)
    ended = holderlake("store", "rebuild", env={"HOLDERLAKE_HOME": str(tmp_path)})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert balances(tmp_path, time_of(200)) == minted(200)
    again = ended.stdout.split("holderlake import node ")[1].split()
    assert again[:4] == ["--chain", "eth", "--token", TOKEN]
    read(tmp_path, *again[4:])
    assert balances(tmp_path, time_of(200)) == twice(200)
    assert balances(tmp_path, time_of(300)) == twice(300)
