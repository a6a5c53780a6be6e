"""The sentences about a cluster: why its holders are together, and above the map how the largest one changed."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from holderlake.core.contract.figures import NOTHING
from holderlake.presentation.evidence import evidence_of
from tests.presentation.explorer.serving import ROOT, built_with

LINKS: Final = pa.schema(
    dict.fromkeys(("from_address", "to_address", "transfer_chain", "transfer_token", "amount"), pa.string())
    | dict.fromkeys(("time_node", "transfers", "first_date", "last_date"), pa.int64())
)
JUNE: Final = datetime(2026, 6, 1)
Rows = list[dict[str, Any]]


def described(nodes: Rows, links: Rows, at: datetime = JUNE) -> tuple[tuple[str, str], dict[str, Any]]:
    """Return what is said about a map with one cluster, whose own token is KELP, and the columns of the cluster."""
    holders = [row for row in nodes if row["kind"] == "top_holder" and row["cluster_id"] == 1]
    share = sum(row.get("share_in_cluster", row["share"]) for row in holders)
    clusters = [{"cluster_id": 1, "share": share, "holder_count": len(holders)}]
    table = pa.Table.from_pylist(links, schema=LINKS)
    finding, columns = evidence_of(nodes, table, clusters if holders else [], ("eth", "KELP"), at)
    return finding, {name: column[0] for name, column in columns.items() if column}


def sentences(nodes: Rows, links: Rows, at: datetime = JUNE) -> tuple[str, str]:
    """Return the sentence of the card, and the one above the map, with names and amounts."""
    finding, columns = described(nodes, links, at)

    def written(found: re.Match[str]) -> str:
        if found[1] == "name":
            return str(nodes[int(found[2])]["label"] or nodes[int(found[2])]["address"])
        return f"{float(found[3]):g} {links[int(found[2])]['transfer_token']}"

    card, above, notes = (
        re.sub(r"\{(name|sum) (\d+) ?(.*?)\}", written, text) for text in (columns.get("sentence", ""), *finding)
    )
    return card, f"{above}. {notes}".strip()


def sentence(nodes: Rows, links: Rows) -> str:
    return sentences(nodes, links)[0]


TREND: Final = """
import { findingOf } from "./finding.mjs";
const finding = ["{name 0} and 2 others together hold 30.0%", "Weak: {sum 0 1500}."];
const map = { nodes: [{ address: "0x1", label: "\u05e9" }], numbered: [{}], clusters: [1], finding };
const of = (part, day) => ({ at: `2026010${day + 1}T000000Z`, series: 1, largest_cluster: part });
const instants = JSON.parse(process.argv.at(-1)).map(of);
console.log(JSON.stringify(instants.map((at) => findingOf(map, { instants }, at, () => "KELP"))));
"""


@pytest.mark.parametrize(
    ("shares", "changes"),
    [
        ([0.1, 0.3], ["up to 30.0% on 2 Jan 2026", "up from 10.0% on 1 Jan 2026"]),
        ([0.5, 0.3], ["down to 30.0% on 2 Jan 2026", "down from 50.0% on 1 Jan 2026"]),
    ],
)
def test_the_page_adds_names_amounts_and_the_trend(tmp_path: Path, shares: list[float], changes: list[str]) -> None:
    command = [str(built_with() / ".bin" / "esbuild"), "src/finding.ts", "--bundle", "--log-level=error"]
    made = tmp_path / "finding.mjs"
    subprocess.run([*command, "--format=esm", f"--outfile={made}"], cwd=ROOT / "web", check=True)
    (tmp_path / "trend.mjs").write_text(TREND)
    run = ["node", str(tmp_path / "trend.mjs"), json.dumps(shares)]
    said = json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    first = "\u2068\u05e9\u2069 and 2 others together hold 30.0%; largest cluster"
    assert said == [[f"{first} {change}.", "Weak: 1.5K KELP."] for change in changes]


def holder(name: str, share: float | None = 0.01, kind: str = "top_holder") -> dict[str, Any]:
    amount = None if share is None else str(share * 1_000)
    known = {"address": name, "label": None, "kind": kind, "cluster_id": 1, "share": share, "amount": amount}
    return known | dict.fromkeys(("time_node", "is_cex", "is_dex", "is_contract", "is_shown_on_map"))


def sent(sender: str, receiver: str, amount: float, token: str = "KELP", transfers: int = 1) -> dict[str, Any]:
    when = {"first_date": 1_735_689_600, "last_date": 1_735_689_600, "time_node": None, "transfers": transfers}
    moved = {"amount": str(amount), "transfer_token": token, "transfer_chain": "eth"}
    return {"from_address": sender, "to_address": receiver} | moved | when


def test_largest_move_of_the_token_is_named_before_frequent_small_ones() -> None:
    nodes = [holder("deployer"), holder("a"), holder("b"), holder("c"), holder("hub", None, "magic")]
    links = [sent("a", "b", 1, transfers=90), sent("deployer", "hub", 360), sent("hub", "b", 40), sent("hub", "c", 40)]
    assert sentence(nodes, links) == (
        "The wallet hub links 3 holders: it got 360 KELP from deployer and sent 80 KELP to 2 holders "
        "in 3 transfers on 1 Jan 2025."
    )


def test_transfers_of_the_own_token_come_before_those_of_others() -> None:
    nodes = [holder("a"), holder("b"), holder("c")]
    links = [sent("b", "c", 9_999, "USDC", 50), sent("a", "b", 2)]
    assert sentence(nodes, links) == "a sent 2 KELP to b on 1 Jan 2025."


def test_named_wallets_come_before_similar_transfers_of_others() -> None:
    nodes = [holder("a"), holder("b"), holder("c") | {"label": "Team"}]
    assert sentence(nodes, [sent("a", "b", 9), sent("c", "b", 6)]).startswith("Team sent 6 KELP to b")


def test_an_owner_counts_with_its_wallets_in_the_cluster() -> None:
    nodes = [holder("owner", 0.18) | {"share_in_cluster": 0.11}, holder("b", 0.05), holder("c", 0.05)]
    _, above = sentences(nodes, [sent("b", one, 500) for one in ("owner", "c")])
    assert above.startswith("3 wallets together hold 21.0% (10.0% without owner)")


def test_a_small_link_of_the_largest_member_is_named_as_weak() -> None:
    nodes = [holder("whale", 0.5), holder("a"), holder("b")]
    assert sentence(nodes, [sent("a", "b", 9), sent("whale", "b", 0.5)]) == (
        "a sent 9 KELP to b on 1 Jan 2025. "
        "The largest member, whale with 50.0% of the supply, sent 0.5 KELP to b on 1 Jan 2025. "
        "Weak: the transfers that link whale are 0.10% of its balance."
    )


HUB: Final = holder("hub", None, "magic")
ALONE: Final = holder("team", 0.3) | {"label": "Team", "cluster_id": None}
WALLETS: Final = [holder("deployer"), holder("a"), holder("b"), holder("c")]
TIMED: Final = holder("bourse", None, "time") | {"time_node": 1, "is_cex": True}


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
            [sent("bourse", one, 9) | {"time_node": 1} for one in ("deployer", "a")],
            "2 holders used bourse at the same time: it sent 18 KELP to 2 holders",
            "2 wallets together hold 2.00%, if transfers of one exchange in the same minutes on 1 Jan 2025 link them.",
            id="an exchange in the same minutes",
        ),
    ],
)
def test_the_funder_is_not_counted_among_the_funded(nodes: Rows, links: Rows, panel: str, above: str) -> None:
    card, finding = sentences(nodes, links)
    assert panel in card
    assert finding.startswith(above)


def test_a_holder_that_only_weak_links_join_is_a_condition() -> None:
    nodes = [holder("whale", 0.24), holder("a", 0.06), holder("b", 0.06)]
    said = sentences(nodes, [sent("a", "b", 9), sent("whale", "b", 0.001)])[1]
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
def test_one_holder_with_more_than_the_others_is_told(nodes: Rows, said: str) -> None:
    above = sentences(nodes, [sent(one["address"], "b" if one["address"] == "a" else "a", 90) for one in nodes[-2:]])[1]
    assert above.startswith(said)


def test_transfers_after_the_date_of_the_map_are_not_told() -> None:
    links = [sent("deployer", one, 120) for one in "abc"]
    later = {"first_date": 1_790_000_000, "last_date": 1_790_000_000}
    said = sentences(WALLETS, [links[0], links[1], links[2] | later])
    assert "sent 240 KELP to 2 holders" in said[0]
    assert said[1] == "4 wallets together hold 4.00%, 2 of them funded by another member on 1 Jan 2025."
    said = sentences(WALLETS, [link | {"last_date": later["last_date"]} for link in links])
    assert "2026" not in " ".join(said)
    said = sentences(WALLETS, [link | later for link in links])
    assert said[1] == "4 wallets together hold 4.00%."


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (1_736_553_600, "from 1 to 11 Jan 2025."),
        (1_738_454_400, "from 1 Jan to 2 Feb 2025."),
        (1_767_225_600, "from 1 Jan 2025 to 1 Jan 2026."),
    ],
)
def test_a_range_of_dates_says_month_and_year_once(last: int, said: str) -> None:
    found = sentences(WALLETS[:2], [sent("deployer", "a", 2) | {"last_date": last}])[1]
    assert found.endswith(said)


def test_a_date_in_september_has_three_letters_as_in_any_month() -> None:
    when = {"first_date": 1_790_000_000, "last_date": 1_790_000_000}  # 21 September 2026
    said = sentences(WALLETS[:2], [sent("deployer", "a", 2) | when], datetime(2026, 11, 1))
    assert [one.partition(" on ")[2] for one in said] == ["21 Sep 2026.", "21 Sep 2026."]


def test_links_of_a_cluster_are_numbered_the_strongest_first() -> None:
    nodes = [*WALLETS, ALONE, HUB | {"address": "far"} | {"cluster_id": 2}, TIMED]
    links = [
        sent("a", "b", 9, "USDC"),
        sent("b", "a", 5),
        sent("a", "b", 7),
        sent("a", "team", 50),
        sent("a", "far", 8),
    ]
    links += [sent("bourse", "c", 90) | {"time_node": 1}, sent("c", "c", 99), sent("a", "unknown", 99)]
    _, columns = described(nodes, links)
    assert (columns["links"], columns["strongest"]) == ([2, 1, 0], 2)
    _, columns = described(nodes, [*links, sent("b", "bourse", 1) | {"time_node": 1}])
    assert (columns["links"], columns["strongest"]) == ([5, 2, 1, 8, 0], 5)


def test_wallets_of_an_owner_count_as_the_owner() -> None:
    owner = holder("owner", 0.3) | {"label": "2 wallets"}
    table = pa.Table.from_pylist([sent("a", "b", 9), sent("b", "c", 5)], schema=LINKS)
    cluster = {"cluster_id": 1, "share": 0.31, "holder_count": 3}
    _, columns = evidence_of([owner, holder("c")], table, [cluster], ("eth", "KELP"), JUNE, {"a": 0, "b": 0})
    assert columns["links"] == [[1]]
    assert columns["sentence"] == ["{name 0} sent {sum 1 5.0} to {name 1} on 1 Jan 2025."]


DEAD: Final = holder("0x000000000000000000000000000000000000dead", 0.4) | {"cluster_id": None}


@pytest.mark.parametrize(
    ("nodes", "finding"),
    [
        ([], ("", "")),
        ([DEAD | {"is_shown_on_map": False}], ("40.0% is burnt", "")),
        (
            [ALONE, holder("a", 0.1) | {"cluster_id": None}],
            ("Nothing links the 2 drawn holders; the largest, {name 0}, has 30.0%", ""),
        ),
        (
            [holder("a", None) | {"cluster_id": None}],
            (f"Nothing links the 1 drawn holder; the largest, {{name 0}}, has {NOTHING}", ""),
        ),
        (
            [holder("a", 0.1), holder("b", 0.1), DEAD | {"is_shown_on_map": False}],
            ("2 wallets together hold 20.0%", "40.0% is burnt."),
        ),
    ],
)
def test_a_map_without_links_says_what_is_known(nodes: Rows, finding: tuple[str, str]) -> None:
    assert described(nodes, [])[0] == finding


@pytest.mark.parametrize(
    ("label", "user"), [(None, "one exchange"), ("\u200b\u202e", "one exchange"), ("Bourse", "{name 2}")]
)
def test_the_list_of_holders_names_a_time_node(label: str | None, user: str) -> None:
    listed = holder("bourse", 0.1) | {"label": label, "is_cex": True, "cluster_id": None, "is_shown_on_map": False}
    links = [sent("bourse", one, 9) | {"time_node": 1} for one in ("deployer", "a")]
    (first, notes), _ = described([*WALLETS[:2], TIMED | {"is_cex": None}, listed], links)
    assert first.endswith(f", if transfers of {user} in the same minutes on 1 Jan 2025 link them")
    assert notes == "Weak: strangers can use an exchange in the same minutes."
