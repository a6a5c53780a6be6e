"""The sentences that say why the holders of a cluster are together, and how the largest cluster changed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.presentation.explorer.serving import ROOT, built_with

SENTENCE: Final = """
import { evidenceOf } from "./evidence.mjs";
const { nodes, links } = JSON.parse(process.argv.at(-1));
const linksOf = new Map(nodes.map(({ id }) => [id, links.filter((link) => link.from === id || link.to === id)]));
const byId = new Map(nodes.map((node) => [node.id, node]));
const map = { at: "", nodes, links, clusters: [], failures: [], byId, linksOf };
const units = { symbolOf: (link) => link.transfer_token, isOwn: (link) => link.transfer_token === "KELP" };
console.log(evidenceOf(map, { cluster_id: 1 }, units).sentence);
"""
FINDING: Final = """
globalThis.document = { getElementById: () => null }; // these three are read at the start, and not by the function
globalThis.matchMedia = () => ({ matches: false, addEventListener() {} });
globalThis.Worker = class { addEventListener() {} };
const { findingOf } = await import("./finding.mjs");
const cluster = { cluster_id: 1, holder_count: 3, share: 0.3 };
const map = { at: "", nodes: [], links: [], clusters: [cluster], failures: [], byId: new Map(), linksOf: new Map() };
const shares = JSON.parse(process.argv.at(-1));
const instants = shares.map((part, day) => ({ at: `2026010${day + 1}T000000Z`, series: 1, largest_cluster: part }));
for (const at of instants) console.log(findingOf(map, { instants }, at, {}));
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundle the functions for Node."""
    made = tmp_path_factory.mktemp("evidence")
    command = [str(built_with() / ".bin" / "esbuild"), "src/evidence.ts", "src/finding.ts", "--bundle", "--format=esm"]
    options = [f"--outdir={made}", "--out-extension:.js=.mjs", "--log-level=error"]
    subprocess.run([*command, *options], cwd=ROOT / "web", check=True)
    (made / "sentence.mjs").write_text(SENTENCE)
    (made / "found.mjs").write_text(FINDING)
    return made


@pytest.mark.parametrize(
    ("shares", "changes"),
    [
        ([0.1, 0.3], ["up to 30.0% on 2 Jan 2026", "up from 10.0% on 1 Jan 2026"]),
        ([0.5, 0.3], ["down to 30.0% on 2 Jan 2026", "down from 50.0% on 1 Jan 2026"]),
    ],
)
def test_a_changed_largest_cluster_is_named(folder: Path, shares: list[float], changes: list[str]) -> None:
    command = ["node", str(folder / "found.mjs"), json.dumps(shares)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert found == [f"3 wallets together hold 30.0%; largest cluster {change}." for change in changes]


def sentence(folder: Path, nodes: list[dict[str, Any]], links: list[dict[str, Any]]) -> str:
    command = ["node", str(folder / "sentence.mjs"), json.dumps({"nodes": nodes, "links": links})]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def holder(name: str, share: float | None = 0.01, kind: str = "top_holder") -> dict[str, Any]:
    amount = None if share is None else str(share * 1_000)
    return {"id": name, "address": name, "label": None, "kind": kind, "cluster_id": 1, "share": share, "amount": amount}


def sent(sender: str, receiver: str, amount: float, token: str = "KELP", transfers: int = 1) -> dict[str, Any]:
    when = {"first_date": 1_735_689_600, "last_date": 1_735_689_600, "time_node": None, "transfers": transfers}
    moved = {"amount": str(amount), "transfer_token": token, "transfer_chain": "eth"}
    return {"from": sender, "to": receiver} | moved | when


def test_largest_move_of_the_token_is_named_before_frequent_small_ones(folder: Path) -> None:
    nodes = [holder("deployer"), holder("a"), holder("b"), holder("c"), holder("hub", None, "magic")]
    links = [sent("a", "b", 1, transfers=90), sent("deployer", "hub", 360), sent("hub", "b", 40), sent("hub", "c", 40)]
    assert sentence(folder, nodes, links) == (
        "The wallet hub links 3 holders: it got 360 KELP from deployer and sent 80 KELP to 2 holders "
        "in 3 transfers on 1 Jan 2025."
    )


def test_transfers_of_the_own_token_come_before_those_of_others(folder: Path) -> None:
    nodes = [holder("a"), holder("b"), holder("c")]
    links = [sent("b", "c", 9_999, "USDC", 50), sent("a", "b", 2)]
    assert sentence(folder, nodes, links) == "a sent 2 KELP to b on 1 Jan 2025."


def test_named_wallets_come_before_similar_transfers_of_others(folder: Path) -> None:
    nodes = [holder("a"), holder("b"), holder("c") | {"label": "Team"}]
    assert sentence(folder, nodes, [sent("a", "b", 9), sent("c", "b", 6)]).startswith("Team sent 6 KELP to b")


def test_a_small_link_of_the_largest_member_is_named_as_weak(folder: Path) -> None:
    nodes = [holder("whale", 0.5), holder("a"), holder("b")]
    assert sentence(folder, nodes, [sent("a", "b", 9), sent("whale", "b", 0.5)]) == (
        "a sent 9 KELP to b on 1 Jan 2025. "
        "The largest member, whale with 50.0% of the supply, sent 0.5 KELP to b on 1 Jan 2025. "
        "Weak: the link of the largest member, whale, moved only 0.10% of what it holds."
    )
