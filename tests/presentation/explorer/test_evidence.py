"""The sentences about a cluster: why its holders are together, and above the map how the largest one changed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.presentation.explorer.serving import ROOT, built_with

SENTENCE: Final = """
import { evidenceOf } from "./evidence.mjs";
import { findingOf } from "./finding.mjs";
const { nodes, links, at, shares } = JSON.parse(process.argv.at(-1));
const linksOf = new Map(nodes.map(({ id }) => [id, links.filter((link) => link.from === id || link.to === id)]));
const byId = new Map(nodes.map((node) => [node.id, node]));
const holders = nodes.filter(({ kind, cluster_id: id }) => kind === "top_holder" && id === 1);
const share = holders.reduce((sum, one) => sum + one.share, 0);
const clusters = [{ cluster_id: 1, share, holder_count: holders.length }];
const map = { at, nodes, links, clusters, failures: [], byId, linksOf };
const units = { symbolOf: (link) => link.transfer_token, isOwn: (link) => link.transfer_token === "KELP" };
console.log(evidenceOf(map, { cluster_id: 1 }, units).sentence);
const instants = shares.map((part, day) => ({ at: `2026010${day + 1}T000000Z`, series: 1, largest_cluster: part }));
for (const of of instants) console.log(findingOf(map, { instants }, of, units));
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundle the functions for Node."""
    made = tmp_path_factory.mktemp("evidence")
    command = [str(built_with() / ".bin" / "esbuild"), "src/evidence.ts", "src/finding.ts", "--bundle"]
    options = ["--format=esm", f"--outdir={made}", "--out-extension:.js=.mjs", "--log-level=error"]
    subprocess.run([*command, *options], cwd=ROOT / "web", check=True)
    (made / "sentence.mjs").write_text(SENTENCE)
    return made


Rows = list[dict[str, Any]]


def sentences(
    folder: Path, nodes: Rows, links: Rows, at: str = "20260601T000000Z", shares: Sequence[float] = (0.5,)
) -> list[str]:
    """Return the sentence of the card, and the one above the map on each of some days, by the largest shares."""
    asked = {"nodes": nodes, "links": links, "at": at, "shares": shares}
    command = ["node", str(folder / "sentence.mjs"), json.dumps(asked)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def sentence(folder: Path, nodes: Rows, links: Rows) -> str:
    return sentences(folder, nodes, links)[0]


@pytest.mark.parametrize(
    ("shares", "changes"),
    [
        ([0.1, 0.3], ["up to 30.0% on 2 Jan 2026", "up from 10.0% on 1 Jan 2026"]),
        ([0.5, 0.3], ["down to 30.0% on 2 Jan 2026", "down from 50.0% on 1 Jan 2026"]),
    ],
)
def test_a_changed_largest_cluster_is_named(folder: Path, shares: list[float], changes: list[str]) -> None:
    found = sentences(folder, [holder(name, 0.1) for name in "abc"], [], shares=shares)[1:]
    assert found == [f"3 wallets together hold 30.0%; largest cluster {change}." for change in changes]


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
        "Weak: the transfers that link whale are 0.10% of its balance."
    )


HUB: Final = holder("hub", None, "magic")
ALONE: Final = holder("team", 0.3) | {"label": "Team", "cluster_id": None}
WALLETS: Final = [holder("deployer"), holder("a"), holder("b"), holder("c")]
TIMED: Final = holder("bourse", None, "time") | {"id": "bourse#1", "time_node": 1, "is_cex": True}


@pytest.mark.parametrize(
    ("nodes", "links", "panel", "above"),
    [
        pytest.param(
            [*WALLETS, HUB],
            [sent("deployer", "hub", 360)] + [sent("hub", one, 120) for one in "abc"],
            "hub links 4 holders: it got 360 KELP from deployer and sent 360 KELP to 3 holders",
            "4 wallets together hold 4.00%, 3 of them funded by one wallet on 1 Jan 2025.",
            id="a linking wallet and who paid it",
        ),
        pytest.param(
            [*WALLETS[1:], WALLETS[0] | {"label": "Team"}],
            [sent("deployer", one, 120) for one in "abc"],
            "Team sent 360 KELP to 3 holders",
            "4 wallets together hold 4.00%, 3 of them funded by another member (Team) on 1 Jan 2025.",
            id="a holder of the cluster",
        ),
        pytest.param(
            [*WALLETS, HUB],
            [sent("a", one, 100) for one in ("b", "c", "hub")] + [sent("hub", "deployer", 1)],
            "sent 200 KELP to 2 holders",
            "4 wallets together hold 4.00%, 2 of them funded by another member on 1 Jan 2025.",
            id="a linking wallet among those that were paid",
        ),
        pytest.param(
            [*WALLETS, HUB],
            [sent(one, "hub", 100) for one in "abc"],
            "hub links 3 holders: it got 300 KELP from 3 holders",
            "4 wallets together hold 4.00%, 3 of them paying into one wallet on 1 Jan 2025.",
            id="a linking wallet that was paid",
        ),
        pytest.param(
            [*WALLETS[:2], TIMED],
            [sent("bourse#1", one, 9) | {"time_node": 1} for one in ("deployer", "a")],
            "2 holders used bourse at the same time: it sent 18 KELP to 2 holders",
            "2 wallets together hold 2.00%, if transfers of one exchange in the same minutes on 1 Jan 2025 link them.",
            id="an exchange in the same minutes",
        ),
    ],
)
def test_the_funder_is_not_counted_among_the_funded(
    folder: Path, nodes: Rows, links: Rows, panel: str, above: str
) -> None:
    card, finding = sentences(folder, nodes, links)
    assert panel in card
    assert finding.startswith(above)


def test_a_holder_that_only_weak_links_join_is_a_condition(folder: Path) -> None:
    nodes = [holder("whale", 0.24), holder("a", 0.06), holder("b", 0.06)]
    said = sentences(folder, nodes, [sent("a", "b", 9), sent("whale", "b", 0.001)])[1]
    assert said.startswith(
        "3 wallets together hold 36.0%, if whale is one of them (without it 12.0%), 2 of them linked by transfers"
    )
    assert said.endswith("Weak: the transfers that link whale are less than 0.001% of its balance.")


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (
            [holder("whale", 0.51), holder("a", 0.1), holder("b", 0.06)],
            "3 wallets together hold 67.0% (16.0% without whale), ",
        ),
        ([holder("whale", 0.51), holder("a", 0.1)], "2 wallets together hold 61.0%, linked by"),
        ([ALONE, holder("a", 0.1), holder("b", 0.1)], "Team alone holds 30.0%; 2 wallets together hold 20.0%, "),
        ([ALONE | {"is_shown_on_map": False}, holder("a", 0.1), holder("b", 0.1)], "2 wallets together hold 20.0%, "),
    ],
)
def test_one_holder_with_more_than_the_others_is_told(folder: Path, nodes: Rows, said: str) -> None:
    above = sentences(folder, nodes, [sent(one["id"], "b" if one["id"] == "a" else "a", 90) for one in nodes[-2:]])[1]
    assert above.startswith(said)


def test_transfers_after_the_date_of_the_map_are_not_told(folder: Path) -> None:
    links = [sent("deployer", one, 120) for one in "abc"]
    later = {"first_date": 1_790_000_000, "last_date": 1_790_000_000}
    said = sentences(folder, WALLETS, [links[0], links[1], links[2] | later])
    assert "sent 240 KELP to 2 holders" in said[0]
    assert said[1] == "4 wallets together hold 4.00%, 2 of them funded by another member on 1 Jan 2025."
    said = sentences(folder, WALLETS, [link | {"last_date": later["last_date"]} for link in links])
    assert "2026" not in " ".join(said)
    said = sentences(folder, WALLETS, [link | later for link in links])
    assert said[1] == "4 wallets together hold 4.00%."


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (1_736_553_600, "from 1 to 11 Jan 2025."),
        (1_738_454_400, "from 1 Jan to 2 Feb 2025."),
        (1_767_225_600, "from 1 Jan 2025 to 1 Jan 2026."),
    ],
)
def test_a_range_of_dates_says_month_and_year_once(folder: Path, last: int, said: str) -> None:
    found = sentences(folder, WALLETS[:2], [sent("deployer", "a", 2) | {"last_date": last}])[1]
    assert found.endswith(said)


def test_a_date_in_september_has_three_letters_as_in_any_month(folder: Path) -> None:
    when = {"first_date": 1_790_000_000, "last_date": 1_790_000_000}  # 21 September 2026
    said = sentences(folder, WALLETS[:2], [sent("deployer", "a", 2) | when], "20261101T000000Z")
    assert [one.partition(" on ")[2] for one in said] == ["21 Sep 2026.", "21 Sep 2026."]
