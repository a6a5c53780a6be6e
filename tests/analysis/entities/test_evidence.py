"""Each kind of evidence links wallets of one owner, and not those of people who meet at a hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from holderlake.analysis.entities.kinds import DISPERSE_TOOLS, EVIDENCE_KINDS
from holderlake.core.contract.times import to_unix
from tests.analysis.entities.transfers import Row, linked, links, paid

pytestmark = pytest.mark.integration

DAY = 24 * 60
WALLETS = ("w1", "w2", "w3", "w4")


DIRECT = EVIDENCE_KINDS["direct"].confidences


def direct(folder: Path, rows: list[Row], exchanges: Sequence[str] = ()) -> dict[tuple[str, str], int]:
    """Return the level of direct evidence of each pair of wallets that has some."""
    return {
        (row["through"], row["address"]): DIRECT.index(row["confidence"]) + 1
        for row in linked(folder, rows, exchanges)
        if row["kind"] == "direct" and row["through"] < row["address"]
    }


def test_direct_transfers_of_customers_of_an_exchange_are_weak_evidence(tmp_path: Path) -> None:
    rows = [paid("w1", "w2", 10), paid("w2", "w1", 20), paid("w3", "w4", 10)]
    paid_first = [paid("start", one, 0) for one in WALLETS]
    assert set(direct(tmp_path, [*paid_first, *rows]).values()) == {6}
    paid_first = [paid("exchange", one, 0) for one in WALLETS]
    assert direct(tmp_path, [*paid_first, *rows], ["exchange"]) == {("w1", "w2"): 1, ("w3", "w4"): 1}


def test_wallets_whose_first_transfers_are_missing_are_weak_evidence(tmp_path: Path) -> None:
    rows = [paid("w1", "w2", 10), paid("w2", "w1", 20), paid("w3", "w1", 30), paid("w3", "w4", 40)]
    assert set(direct(tmp_path, rows).values()) == {1}
    assert "w2" not in {row["through"] for row in linked(tmp_path, rows) if row["kind"] == "first_funder"}


def test_a_direct_link_has_the_transfers_of_both_directions(tmp_path: Path) -> None:
    rows = [paid("exchange", "w1", 0), paid("exchange", "w2", 0), paid("w1", "w2", 10), paid("w2", "w1", 20)]
    (found,) = (
        row for row in linked(tmp_path, rows, ["exchange"]) if row["address"] == "w1" and row["kind"] == "direct"
    )
    assert (found["through"], found["transfers"]) == ("w2", 2)


@pytest.mark.parametrize(
    ("others", "shared", "transfers", "level"),
    [
        (9, 0, 1, 5),
        (10, 0, 1, 4),
        (15, 0, 1, 3),
        (19, 1, 1, 5),
        (20, 1, 1, 2),
        (29, 0, 1, 2),
        (30, 0, 1, 1),
        (49, 3, 1, 5),
        (49, 2, 1, 1),
        (99, 0, 5, 5),
        (99, 0, 4, 1),
    ],
)
def test_wallets_that_meet_few_others_are_strong_evidence(
    tmp_path: Path, others: int, shared: int, transfers: int, level: int
) -> None:
    """Both wallets have ``others`` counterparties besides each other, of which they share some."""
    bare = [
        *({"from_address": "a", "to_address": "b"} for _ in range(transfers)),
        *({"from_address": one, "to_address": f"shared {number}"} for one in "ab" for number in range(shared)),
        *({"from_address": one, "to_address": f"{one} {number}"} for one in "ab" for number in range(others - shared)),
    ]
    assert direct(tmp_path, bare)["a", "b"] == level


def test_a_wallet_that_meets_one_other_belongs_to_it(tmp_path: Path) -> None:
    bare = [{"from_address": "owner", "to_address": f"leaf {number}"} for number in range(40)]
    assert set(direct(tmp_path, bare).values()) == {5}
    busy = [*bare, *({"from_address": "leaf 0", "to_address": f"leaf {number}"} for number in range(1, 40))]
    assert direct(tmp_path, busy)["leaf 0", "owner"] == 5, "they share 39"
    shop = [*(paid("exchange", f"w{one}", 0) for one in range(40)), *(paid(f"w{one}", "shop", 9) for one in range(40))]
    assert set(direct(tmp_path, shop, ["exchange"]).values()) == {1}, "customers of a shop"


def test_a_funder_sends_funding_and_gets_direct_evidence_back(tmp_path: Path) -> None:
    rows = [paid("exchange", "owner", 0), paid("owner", "w1", 10), paid("owner", "w2", 20), paid("owner", "w2", 30)]
    rows.append(paid("w1", "owner", 40))
    assert links(tmp_path, rows, "direct", ["exchange"]) == [{"owner", "w1"}]
    assert links(tmp_path, rows, "first_funder", ["exchange"]) == [{"owner", "w1", "w2"}]


def test_a_transfer_of_zero_is_no_evidence(tmp_path: Path) -> None:
    rows = [*(paid("exchange", one, 0) for one in WALLETS), paid("w1", "w2", 10, 0), paid("w2", "w1", 11, 0)]
    assert links(tmp_path, rows, "direct", ["exchange"]) == []


def test_the_first_transfer_is_one_of_the_coin_even_after_an_airdrop(tmp_path: Path) -> None:
    rows = [
        *(paid("airdrop", one, 1, token="0xdrop") for one in WALLETS),
        *(paid("owner", one, 10) for one in WALLETS),
    ]
    assert links(tmp_path, rows, "first_funder") == [{"owner", *WALLETS}]


def test_a_label_or_many_counterparties_make_a_funder_a_hub(tmp_path: Path) -> None:
    rows = [paid("bridge", one, 10) for one in WALLETS]
    assert links(tmp_path, rows, "first_funder") == [{"bridge", *WALLETS}]
    assert links(tmp_path, rows, "first_funder", marked=["bridge"]) == []
    rows += [paid("bridge", f"user {number}", 20 + number) for number in range(250)]
    assert links(tmp_path, rows, "first_funder") == []


def test_wallets_funded_in_one_transaction_are_linked_with_the_payer(tmp_path: Path) -> None:
    directly = [paid("owner", one, 10, 100 + number, tx="t") for number, one in enumerate(WALLETS)]
    assert links(tmp_path, directly, "disperse") == [{"owner", *WALLETS}]


@pytest.mark.long
def test_a_contract_that_passes_payments_on_is_a_hub_and_not_the_payer(tmp_path: Path) -> None:
    rows = [
        paid("alice", "contract", 10, 300, tx="t"),
        *(paid("contract", f"a{number}", 10, 100, tx="t") for number in range(3)),
        paid("bob", "contract", 20, 300, tx="u"),
        *(paid("contract", f"b{number}", 20, 100, tx="u") for number in range(3)),
    ]
    assert links(tmp_path, rows, "disperse") == [{"alice", "a0", "a1", "a2"}, {"bob", "b0", "b1", "b2"}]
    assert links(tmp_path, rows, "direct") == links(tmp_path, rows, "first_funder") == []


def test_unlike_amounts_and_wallets_with_a_past_are_no_disperse(tmp_path: Path) -> None:
    unlike = [paid("owner", one, 10, 10**place, tx="t") for place, one in enumerate(WALLETS)]
    assert links(tmp_path, unlike, "disperse") == []
    used = [*(paid("exchange", one, 1) for one in WALLETS), *(paid("owner", one, 10, tx="t") for one in WALLETS)]
    assert links(tmp_path, used, "disperse", ["exchange"]) == []


@pytest.mark.long
def test_an_employer_and_a_faucet_link_nobody(tmp_path: Path) -> None:
    employer = [paid("employer", one, month * 30 * DAY, tx=f"m{month}") for month in range(12) for one in WALLETS]
    faucet = [paid("faucet", f"{day} {number}", day * DAY, tx=f"d{day}") for day in range(3) for number in range(9)]
    for rows in (employer, faucet):
        assert links(tmp_path, rows, "disperse") == links(tmp_path, rows, "first_funder") == []


def test_a_chain_of_wallets_that_fund_only_the_next_one_is_linked(tmp_path: Path) -> None:
    rows = [paid("exchange", "w1", 0), *(paid(WALLETS[place], WALLETS[place + 1], 10 + place) for place in range(3))]
    assert links(tmp_path, rows, "funding_chain", ["exchange"]) == [set(WALLETS)]
    forked = [*rows, paid("w2", "other", 90)]
    assert links(tmp_path, forked, "funding_chain", ["exchange"]) == []


def test_users_of_one_deposit_address_are_linked(tmp_path: Path) -> None:
    rows = [
        row
        for number, one in enumerate(WALLETS)
        for row in (paid(one, "deposit", number), paid("deposit", "exchange", number + 1, 99))
    ]
    assert links(tmp_path, rows, "deposit", ["exchange"]) == [set(WALLETS)]
    assert links(tmp_path, rows, "deposit") == [], "nobody knows that it is an exchange"


def test_an_address_that_keeps_money_or_pays_several_is_no_deposit_address(tmp_path: Path) -> None:
    gets = [paid(one, "shop", 1) for one in WALLETS]
    assert links(tmp_path, [*gets, paid("shop", "exchange", 9, 50)], "deposit", ["exchange"]) == []
    both = [*gets, paid("shop", "exchange", 9, 300), paid("shop", "friend", 10, 100)]
    assert links(tmp_path, both, "deposit", ["exchange"]) == []


def test_wallets_that_act_in_the_same_minutes_are_linked(tmp_path: Path) -> None:
    together = [paid(one, "app", minute, token="0xapp") for minute in (10, 500, 900) for one in WALLETS]
    assert links(tmp_path, together, "in_step") == [set(WALLETS)]
    assert links(tmp_path, together[: 2 * len(WALLETS)], "in_step") == [], "twice is chance"


def test_players_of_a_popular_game_are_not_linked(tmp_path: Path) -> None:
    crowd = [paid(f"player {number}", "game", minute) for minute in (10, 500, 900) for number in range(30)]
    assert links(tmp_path, crowd, "in_step") == []
    alone = [paid("w1", "game", minute) for minute in range(0, 9_000, 100)]
    busy = [paid("w2", "game", minute) for minute in range(0, 9_000, 300) if minute not in (300, 600, 900)]
    often = [paid("w2", "game", minute) for minute in range(7, 9_000, 100)]
    assert links(tmp_path, [*alone, *busy], "in_step") == [{"w1", "w2"}]
    assert links(tmp_path, [*alone[:3], *alone[3::30], *often, *busy[:2]], "in_step") == []


@pytest.mark.long
def test_wallets_emptied_into_one_are_linked_with_it(tmp_path: Path) -> None:
    filled = [paid("exchange", one, number) for number, one in enumerate(WALLETS)]
    emptied = [*filled, *(paid(one, "vault", 50 + number, 95) for number, one in enumerate(WALLETS))]
    assert links(tmp_path, emptied, "sweep", ["exchange"]) == [{"vault", *WALLETS}]
    spent = [*filled, *(paid(one, "shop", 50 + number, 20) for number, one in enumerate(WALLETS))]
    assert links(tmp_path, spent, "sweep", ["exchange"]) == []
    unknown = [paid(one, "vault", 50) for one in WALLETS]
    assert links(tmp_path, unknown, "sweep") == [], "nothing tells what they had"
    assert links(tmp_path, emptied[:4] + emptied[4:6], "sweep", ["exchange"]) == [], "two wallets are too few"


def test_a_link_names_the_address_and_the_times_of_its_transfers(tmp_path: Path) -> None:
    rows = [paid("owner", "w1", 10), paid("owner", "w2", 20)]
    found = [row for row in linked(tmp_path, rows) if row["kind"] == "first_funder"]
    assert {(row["address"], row["through"], to_unix(row["first_time"])) for row in found} >= {
        ("w1", "owner", 600),
        ("w2", "owner", 1200),
    }


def test_without_times_wallets_paid_in_one_transaction_are_linked(tmp_path: Path) -> None:
    rows = [paid("owner", one, 10, 100 + number, tx="t") for number, one in enumerate(WALLETS)]
    rows += [paid("faucet", f"{batch} {number}", 10, tx=f"f{batch}") for batch in range(11) for number in range(9)]
    rows += [paid("stranger", "w1", 10), paid("w2", "shop", 10)]
    untimed = [{name: value for name, value in row.items() if name != "block_time"} for row in rows]
    assert links(tmp_path, untimed, "disperse") == [{"owner", *WALLETS}]


def test_a_known_disperse_tool_pays_for_others_whoever_they_are(tmp_path: Path) -> None:
    (tool,) = DISPERSE_TOOLS
    rows = [paid(tool, f"{tx} {number}", tx, tx=f"t{tx}") for tx in range(100) for number in range(3)]
    found = links(tmp_path, rows, "disperse", marked=[tool])
    assert found == sorted([{f"{tx} {number}" for number in range(3)} for tx in range(100)], key=sorted)


def test_a_coin_of_one_chain_does_not_hide_the_funding_of_another(tmp_path: Path) -> None:
    rows = [paid("owner", one, 10, token="0xt") | {"chain": "base"} for one in WALLETS]
    assert links(tmp_path, [*rows, paid("a", "b", 10)], "first_funder", ["a"]) == [{"owner", *WALLETS}]


def test_times_of_direct_evidence_are_those_of_the_transfers_that_count(tmp_path: Path) -> None:
    rows = [paid("exchange", "owner", 0), paid("owner", "w1", 10), paid("w1", "owner", 40)]
    found = [row for row in linked(tmp_path, rows, ["exchange"]) if row["kind"] == "direct"]
    assert {(row["transfers"], to_unix(row["first_time"]), to_unix(row["last_time"])) for row in found} == {
        (1, 2400, 2400)
    }


def test_a_wallet_has_one_row_of_a_payment_in_which_it_pays_itself_too(tmp_path: Path) -> None:
    (tool,) = DISPERSE_TOOLS
    rows = [paid("w1", tool, 10, 300, tx="t"), *(paid(tool, one, 10, tx="t") for one in WALLETS)]
    assert [row["address"] for row in linked(tmp_path, rows) if row["kind"] == "disperse"] == list(WALLETS)


def test_a_contract_that_several_pay_in_one_transaction_has_no_payer(tmp_path: Path) -> None:
    rows = [paid("alice", "contract", 10, tx="t"), paid("zed", "contract", 10, tx="t")]
    rows += [paid("contract", one, 10, tx="t") for one in WALLETS]
    assert links(tmp_path, rows, "disperse") == [set(WALLETS)]
    assert links(tmp_path, rows, "first_funder") == []


def test_a_token_contract_is_a_hub(tmp_path: Path) -> None:
    rows = [paid("0xtoken", one, 10, token="0xtoken") for one in WALLETS]
    assert links(tmp_path, rows, "first_funder") == []


def test_a_busy_address_with_another_label_is_no_exchange(tmp_path: Path) -> None:
    rows = [paid(f"user {number}", "sink", number) for number in range(300)]
    rows += [paid("alice", "x", 10), paid("bob", "x", 11), paid("x", "sink", 12, 200)]
    assert links(tmp_path, rows, "deposit") == [{"alice", "bob"}]
    assert links(tmp_path, rows, "deposit", marked=["sink"]) == []


def test_wallets_that_act_in_step_with_others_are_one_group(tmp_path: Path) -> None:
    rows = [paid(one, "app", 100 * turn, token="0x1") for turn in range(8) for one in ("a", "b")]
    rows += [paid(one, "game", 100 * turn + 50, token="0x1") for turn in range(8) for one in ("c", "d")]
    assert links(tmp_path, rows, "in_step") == [{"a", "b"}, {"c", "d"}]
    rows += [paid(one, "shop", 5_000 + 100 * turn, token="0x1") for turn in range(4) for one in ("b", "c")]
    assert links(tmp_path, rows, "in_step") == [{"a", "b", "c", "d"}]


def test_a_link_in_step_counts_the_acts_of_one_wallet(tmp_path: Path) -> None:
    rows = [paid(one, "app", minute, token="0xapp") for minute in (10, 500, 900) for one in WALLETS]
    assert {row["transfers"] for row in linked(tmp_path, rows) if row["kind"] == "in_step"} == {3}


def test_the_funder_itself_has_no_address_that_its_evidence_goes_through(tmp_path: Path) -> None:
    rows = [paid("owner", one, 10, tx="t") for one in WALLETS]
    found = {(row["kind"], row["address"]): row["through"] for row in linked(tmp_path, rows)}
    assert found["disperse", "owner"] is found["first_funder", "owner"] is None
    assert found["disperse", "w1"] == found["first_funder", "w1"] == "owner"
