"""The alert rules over a real warehouse: what each finds, what it leaves, and with which evidence."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.engine.store.store import Store
from holderlake.operations.alerts.rules import Alert, Span, evaluate, rule_sql, tokens_of
from holderlake.operations.alerts.settings import ALERT_KINDS, AlertRule
from holderlake.sources.rpc.verified import record
from holderlake.sources.rpc.verify import BlockGap, NodeCheck
from holderlake.sources.store import stored_transfers
from tests.helpers.lakes import DAYS, failures, map_tables, rows, transfer, write, write_holders, write_maps

CHAIN, TOKEN = "eth", "0xa"
LATER = timedelta(hours=1)
DAY = timedelta(days=1)
HOSTILE = "'; DROP TABLE maps; --\n<!channel> \u202e"


@pytest.fixture
def lake(empty_warehouse: Path, lake: Lake) -> Lake:
    """A lake, and a warehouse with its views."""
    shutil.copy(empty_warehouse, lake.root.parent)
    return lake


def found(
    lake: Lake, rule: AlertRule, span: Span | None = None, tokens: Mapping[str, Sequence[str]] | None = None
) -> list[Alert]:
    warehouse = Warehouse(lake.root.parent / "warehouse.duckdb")
    warehouse.load(lake)
    with warehouse.connect() as connection:
        return evaluate(connection, "mine", rule, tokens or {CHAIN: [TOKEN]}, span or Span(DAYS[0], DAYS[20], DAY))


def dates(alerts: Sequence[Alert]) -> list[datetime]:
    return [alert.timestamp for alert in alerts]


# A cluster over a share of the supply


def clusters_of(lake: Lake, as_of: datetime, shares: Mapping[Sequence[str], float], label: str | None = None) -> None:
    parts = {address: share / len(members) for members, share in shares.items() for address in members}
    tables = map_tables(CHAIN, as_of, {TOKEN: list(shares)}, shares=parts)
    if label:
        listed = [row | {"label": label, "rank": 1} for row in tables["map_nodes"].to_pylist()]
        tables["map_nodes"] = rows("map_nodes", CHAIN, as_of, listed)
    write(lake, "maps", CHAIN, as_of, tables, {TOKEN})


CLUSTER = AlertRule(rule="cluster_share")


@pytest.mark.integration
def test_a_cluster_is_told_when_it_passes_the_share_and_not_while_it_stays(lake: Lake) -> None:
    for day, share in enumerate([0.05, 0.1, 0.11, 0.2, 0.15]):
        clusters_of(lake, DAYS[day], {("0x1", "0x2"): share})
    (alert,) = found(lake, CLUSTER)
    assert (alert.timestamp, alert.subject, alert.measured, alert.threshold) == (DAYS[2], "0x1", 0.11, 0.1)
    assert alert.evidence["share_before"] == 0.1
    assert [one["address"] for one in alert.evidence["largest_members"]] == ["0x1", "0x2"]


@pytest.mark.integration
def test_a_cluster_that_fell_below_and_comes_back_is_told_again(lake: Lake) -> None:
    for day, share in enumerate([0.2, 0.05, 0.2]):
        clusters_of(lake, DAYS[day], {("0x1", "0x2"): share})
    assert dates(found(lake, CLUSTER)) == [DAYS[0], DAYS[2]]


@pytest.mark.integration
def test_a_cluster_keeps_its_name_when_its_number_changes(lake: Lake) -> None:
    clusters_of(lake, DAYS[0], {("0x1", "0x2"): 0.3, ("0x3", "0x4"): 0.2})
    clusters_of(lake, DAYS[1], {("0x3", "0x4"): 0.4, ("0x1", "0x2"): 0.3})
    assert dates(found(lake, CLUSTER)) == [DAYS[0]] * 2


# The score


def scores(lake: Lake, values: Mapping[datetime, float | None]) -> None:
    for as_of, score in values.items():
        tables = map_tables(CHAIN, as_of, {TOKEN: []})
        tables["maps"] = rows(
            "maps", CHAIN, as_of, [row | {"service_score": score} for row in tables["maps"].to_pylist()]
        )
        write(lake, "maps", CHAIN, as_of, tables, {TOKEN})


FALL = AlertRule(rule="score_fall")


@pytest.mark.integration
def test_a_fall_within_a_day_is_told_with_the_score_it_fell_from(lake: Lake) -> None:
    scores(lake, {DAYS[0]: 60, DAYS[1]: 55, DAYS[2]: 50.1, DAYS[4]: 40})
    (alert,) = found(lake, FALL)
    assert (alert.timestamp, alert.measured, alert.evidence["highest_score"]) == (DAYS[1], 5, 60)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("values", "alerted", "within"),
    [
        ({DAYS[0] + hour * LATER: 60 - 2 * hour for hour in range(12)}, [DAYS[0] + 3 * LATER], "1d"),
        ({DAYS[0]: 60, DAYS[1]: 54, DAYS[2]: 48, DAYS[3]: 48}, [DAYS[1], DAYS[2]], "1d"),
        ({DAYS[0]: 60, DAYS[1]: None, DAYS[2]: 60}, [], "1d"),
        ({DAYS[0]: 60, DAYS[3]: 57, DAYS[6]: 54}, [DAYS[6]], "1w"),
    ],
    ids=["a slow fall once", "a second one as large", "a map without a score", "a longer time"],
)
def test_falls_of_a_score_are_told(
    lake: Lake, values: dict[datetime, float | None], alerted: list[datetime], within: str
) -> None:
    scores(lake, values)
    assert dates(found(lake, AlertRule(rule="score_fall", within=within))) == alerted


# Transfers to exchanges


def map_with(
    lake: Lake, as_of: datetime, ranks: Mapping[str, int], sent: Sequence[dict[str, Any]], exchange: str = "0xcex"
) -> None:
    nodes = [
        {"token_address": TOKEN, "kind": "top_holder", "address": address, "rank": rank, "share": 0.01}
        for address, rank in ranks.items()
    ]
    nodes.append({"token_address": TOKEN, "kind": "magic", "address": exchange, "is_cex": True, "label": HOSTILE})
    tables = map_tables(CHAIN, as_of, {TOKEN: []})
    tables["map_nodes"] = rows("map_nodes", CHAIN, as_of, nodes)
    tables["grouped_transfers"] = rows(
        "grouped_transfers", CHAIN, as_of, [{"token_address": TOKEN} | one for one in sent]
    )
    write(lake, "maps", CHAIN, as_of, tables, {TOKEN})


def sent_to(receiver: str, last: datetime, value: str = "5", count: int = 2, **more: Any) -> dict[str, Any]:
    return transfer("0x1", receiver, TOKEN, CHAIN, value, count) | {"last_date": last} | more


SENT = AlertRule(rule="exchange_transfer")
HUGE = "123456789012345678901234567890.5"


def test_an_exchange_transfer_alert_has_the_exact_value(lake: Lake) -> None:
    map_with(lake, DAYS[0], {"0x1": 1}, [sent_to("0xcex", DAYS[0] - LATER)])
    map_with(lake, DAYS[1], {"0x1": 1}, [sent_to("0xcex", DAYS[1] - LATER, HUGE, 5)])
    map_with(lake, DAYS[2], {"0x1": 1}, [sent_to("0xcex", DAYS[1] - LATER, HUGE, 5)])
    (alert,) = found(lake, SENT)
    assert (alert.timestamp, alert.subject, alert.measured) == (DAYS[1], "0x1", 3)
    assert alert.evidence["sent"][0]["value"] == HUGE
    assert alert.evidence["sent"][0]["exchange"] == HOSTILE
    assert HOSTILE not in alert.sentence


def test_who_sent_all_that_it_had_is_told_although_it_is_no_top_holder_now(lake: Lake) -> None:
    map_with(lake, DAYS[0], {"0x1": 1}, [])
    map_with(lake, DAYS[1], {"0x2": 1}, [sent_to("0xcex", DAYS[1] - LATER, time_node=1)])
    (alert,) = found(lake, SENT)
    assert (alert.evidence["rank"], alert.evidence["rank_before"], alert.measured) == (None, 1, 2)


@pytest.mark.later(integration=1, long=2)
@pytest.mark.parametrize(
    "sent",
    [
        sent_to("0x3", DAYS[1] - LATER),
        sent_to("0xcex", DAYS[1] - LATER, transfer_token="0xother"),
        sent_to("0xcex", DAYS[0] - LATER),
        sent_to("0xcex", DAYS[1] - LATER, from_address="0x2"),
    ],
    ids=["to another address", "another token", "long ago", "by a small holder"],
)
def test_other_transfers_are_nothing_to_tell(lake: Lake, sent: dict[str, Any]) -> None:
    map_with(lake, DAYS[0], {"0x1": 1, "0x2": 11}, [])
    map_with(lake, DAYS[1], {"0x1": 1, "0x2": 11}, [sent])
    assert found(lake, SENT) == []


# New top holders


@pytest.mark.parametrize(
    ("now", "rank"),
    [({"0x3": 12, "0x1": 9, "0x4": 8, "0x2": 7}, 1), ({"0x1": 9, "0x3": 7, "0x2": 1}, 2)],
    ids=["with a larger amount", "with the same amount"],
)
def test_an_address_that_enters_the_first_ranks_is_told(lake: Lake, now: dict[str, int], rank: int) -> None:
    write_holders(lake, CHAIN, DAYS[0], {TOKEN: {"0x1": 9, "0x2": 8, "0x3": 7}})
    write_holders(lake, CHAIN, DAYS[1], {TOKEN: now})
    (alert,) = found(lake, AlertRule(rule="new_top_holder", top=2))
    assert (alert.subject, alert.measured, alert.evidence["rank_before"]) == ("0x3", rank, 3)
    assert alert.evidence["amount_before"] == "7"


def test_the_first_list_of_a_token_has_nobody_new(lake: Lake) -> None:
    write_holders(lake, CHAIN, DAYS[0], {TOKEN: {"0x1": 9}})
    assert found(lake, AlertRule(rule="new_top_holder")) == []


# Stored transfers that differ from a node's


def test_an_incomplete_source_is_told_once_for_each_check(lake: Lake) -> None:
    found_blocks = NodeCheck(CHAIN, [TOKEN], "node", first=1, last=50, as_of=DAYS[0], unread=[BlockGap(TOKEN, 3, 7)])
    store = lake.root.parent / "engine"
    Store(store).close()
    record(store, found_blocks, DAYS[1])
    warehouse = Warehouse(lake.root.parent / "warehouse.duckdb", transfers=lambda: stored_transfers(store))
    warehouse.load(lake)
    with warehouse.connect() as connection:
        tokens = {CHAIN: [TOKEN]}
        rule = AlertRule(rule="incomplete_source")
        (alert,) = evaluate(connection, "mine", rule, tokens, Span(DAYS[0], DAYS[2], DAY))
        (again,) = evaluate(connection, "mine", rule, tokens, Span(DAYS[0], DAYS[3], DAY))
        assert evaluate(connection, "mine", rule, tokens, Span(DAYS[2], DAYS[3], DAY)) == []
    assert (alert.subject, alert.measured, alert.evidence["unread_blocks"]) == (TOKEN, 5, 5)
    assert alert.fingerprint == again.fingerprint


# Late data


LATE = AlertRule(rule="data_late")


@pytest.mark.long
def test_late_data_gives_one_alert_until_new_data_comes(lake: Lake) -> None:
    write_holders(lake, CHAIN, DAYS[0], {TOKEN: {"0x1": 9}})
    assert found(lake, LATE, Span(DAYS[0], DAYS[2], DAY)) == []
    (first,) = found(lake, LATE, Span(DAYS[0], DAYS[2] + LATER, DAY))
    (later,) = found(lake, LATE, Span(DAYS[0], DAYS[5], DAY))
    assert first.fingerprint == later.fingerprint
    write_maps(lake, CHAIN, DAYS[5], {TOKEN: []})
    (again,) = found(lake, LATE, Span(DAYS[0], DAYS[9], DAY))
    assert again.fingerprint != first.fingerprint


def test_a_token_without_data_is_late_after_the_first_evaluation(lake: Lake) -> None:
    assert found(lake, LATE, Span(DAYS[0], DAYS[9], DAY, began=DAYS[8])) == []
    (alert,) = found(lake, LATE, Span(DAYS[0], DAYS[9], DAY, began=DAYS[0]))
    assert alert.evidence["newest_timestamp"] is None


def test_no_holders_count_as_data_and_an_outage_does_not(lake: Lake) -> None:
    write(lake, "maps", CHAIN, DAYS[0], {}, set(), failures(CHAIN, DAYS[0], ("map", TOKEN)))
    assert found(lake, LATE, Span(DAYS[0], DAYS[1], DAY, began=DAYS[0] - 9 * DAY)) == []
    assert len(found(lake, LATE, Span(DAYS[0], DAYS[3], DAY))) == 1


# All rules


@pytest.mark.later(integration=1, long=2)
@pytest.mark.parametrize("kind", ALERT_KINDS)
def test_a_rule_examines_its_tokens_and_describes_itself(lake: Lake, kind: str) -> None:
    clusters_of(lake, DAYS[0], {("0x1", "0x2"): 0.5})
    rule = AlertRule.model_validate({"rule": kind, "tokens": {CHAIN: ["0x000000000000000000000000000000000000000b"]}})
    tokens = tokens_of(rule, {CHAIN: [TOKEN]})
    assert {alert.token_address for alert in found(lake, rule, tokens=tokens)} <= {*tokens[CHAIN]}
    assert tokens_of(rule, {}, chains=["base"]) == {}
    assert rule_sql(kind).startswith("-- ")


@pytest.mark.integration
def test_fingerprints_do_not_depend_on_labels(lake: Lake) -> None:
    clusters_of(lake, DAYS[0], {("0x1", "0x2"): 0.5})
    (before,) = found(lake, CLUSTER)
    clusters_of(lake, DAYS[0], {("0x1", "0x2"): 0.6}, label=HOSTILE)
    (after,) = found(lake, CLUSTER)
    assert before.fingerprint == after.fingerprint
    assert after.evidence["largest_members"][0]["label"] == HOSTILE
