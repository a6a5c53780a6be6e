"""Each tool's rows are those of the world, and each answer says what they are worth."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from holderlake.core.contract.chains import ZERO_ADDRESS
from tests.presentation.explorer.world import (
    CROWD,
    EXCHANGE,
    HOSTILE,
    INSTANTS,
    LEAVER,
    MAGIC,
    NEWCOMER,
    POOL,
    TEAM,
    TIDE,
    WHALE,
)
from tests.presentation.explorer.world import address as numbered
from tests.presentation.mcp.client import Assistant

pytestmark = pytest.mark.integration

JUNE = "2026-06-15"


@pytest.mark.long
def test_a_token_is_found_by_a_part_of_its_name(assistant: Assistant) -> None:
    (found,) = assistant.rows("find_tokens", text="pool")
    assert (found["token_address"], found["symbol"], found["maps"]) == (TIDE, "TIDE", 6)


def test_holders_are_those_of_the_newest_list_at_or_before_an_instant(assistant: Assistant) -> None:
    found, *_ = assistant.rows("holders_as_of", token=CROWD, at="2026-03-20")
    assert (found["timestamp"], found["days_earlier"], found["rank"]) == ("2026-03-01T00:00:00Z", 20, 1)
    assert found["basis"].startswith("list of at most ")


def balances(assistant: Assistant, until: str) -> dict[str, int]:
    """The balances of all holders of TIDE before a day, recounted from the transfers."""
    sql = f"SELECT from_address, to_address, raw_amount FROM transfers WHERE token_address = '{TIDE}'"
    found: Counter[str] = Counter()
    for row in assistant.rows("query", sql=f"{sql} AND block_time < '{until}'"):
        found[row["from_address"]] -= int(row["raw_amount"])
        found[row["to_address"]] += int(row["raw_amount"])
    return {address: raw for address, raw in found.items() if raw > 0 and address != ZERO_ADDRESS}


def test_all_holders_of_a_stored_token_are_answered_exactly(assistant: Assistant) -> None:
    expected = balances(assistant, "2026-12-02")
    found = assistant.rows("holders_as_of", token="tide", at="2026-12-01", top=1000)
    assert {row["address"]: int(row["raw_amount"]) for row in found} == expected
    assert {(row["holders"], row["basis"]) for row in found} == {(len(expected), "all holders")}
    by_month = assistant.rows(
        "concentration_by_period", token="tide", each="month", first_day="2026-11-01", last_day="2026-11-30"
    )
    assert by_month[0]["number"] == len(expected)
    owners = assistant.rows("owners_as_of", token="tide", at="2026-12-01", top=1000)
    assert {row["owner"] for row in owners} == set(expected)


def test_all_changes_of_a_stored_token_are_answered_exactly(assistant: Assistant) -> None:
    first = assistant.rows(
        "query", sql=f"SELECT min(block_time)::DATE::VARCHAR AS day FROM transfers WHERE token_address = '{TIDE}'"
    )
    day = first[0]["day"]
    before, after = balances(assistant, f"{day} 24:00"), balances(assistant, "2026-12-02")
    found = assistant.rows("changes_between", token="tide", before=day, after="2026-12-01", rows=1000)
    kinds = {
        address: "entered" if address not in before else "left" if address not in after
        else "grew" if after[address] > before[address] else "shrank"
        for address in before.keys() | after.keys() if before.get(address) != after.get(address)
    }  # fmt: skip
    assert {row["address"]: row["change"] for row in found} == kinds


@pytest.mark.later(long=1)
@pytest.mark.parametrize("month", range(1, 7))
def test_clusters_are_those_of_each_map(assistant: Assistant, home: Path, month: int) -> None:
    found = assistant.rows("clusters_as_of", token="TIDE", at=f"2026-{month:02}-10")
    (path,) = (home / "lake").glob(f"cluster_members/chain=eth/timestamp=2026{month:02}01*/*.parquet")
    members = [row for row in pq.ParquetFile(path).read().to_pylist() if row["token_address"] == TIDE]
    expected = {(row["cluster_id"], row["address"], row["kind"]) for row in members}
    assert {(row["cluster_id"], row["address"], row["kind"]) for row in found} == expected
    assert len(found) == len(expected)
    assert {row["label"] for row in found if row["address"] == TEAM} == {"Tide: Team"}


def test_reasons_are_the_transfers_between_members(assistant: Assistant) -> None:
    found = assistant.rows("cluster_reasons", token="TIDE", cluster=1, at=JUNE)
    links = {(row["from_address"], row["to_address"], row["total_value"]) for row in found}
    assert {(sender, receiver) for sender, receiver, _ in links} == {
        (TEAM, MAGIC),
        (MAGIC, numbered(1)),
        (MAGIC, numbered(2)),
    }
    assert "449.5" in {value.rstrip("0") for _, _, value in links}


def test_concentration_is_that_of_each_map_in_the_period(assistant: Assistant) -> None:
    found = assistant.rows("concentration_history", token="TIDE", since="2026-02-01", until="2026-04-01")
    assert [(row["timestamp"], row["service_score"]) for row in found] == [
        (f"2026-{month:02}-01T00:00:00Z", 39.0 + month) for month in (2, 3, 4)
    ]


def test_an_address_has_all_its_tokens_and_clusters(assistant: Assistant) -> None:
    found = assistant.rows("address_history", address=TEAM.upper().replace("0X", "0x"))
    assert [(row["timestamp"], row["symbol"]) for row in found] == [
        (f"{instant.isoformat()}Z", "TIDE") for instant in INSTANTS
    ]
    assert {row["cluster_id"] for row in found} == {1, 2}  # in March it is the second


def test_lines_of_clusters_are_told_through_time(assistant: Assistant) -> None:
    found = assistant.rows("cluster_history", token="TIDE")
    assert {row["lineage"] for row in found} == {"2026-01-01 00:00:00/1", "2026-01-01 00:00:00/2"}
    assert len(found) == 2 * len(INSTANTS)


def test_transfers_have_hashes(assistant: Assistant) -> None:
    found = assistant.rows("transfers_between", a=TEAM, b=MAGIC)
    assert [row["tx_hash"] for row in found] == [f"0x{number:064x}" for number in range(3)]


def test_problems_are_listed(assistant: Assistant) -> None:
    found = assistant.rows("data_quality", token=HOSTILE)
    assert "after_source_end" in {row["issue"] for row in found}


def test_any_question_can_be_asked_in_sql(assistant: Assistant) -> None:
    sql = f"SELECT timestamp, count(*) AS nodes FROM map_nodes WHERE address = '{WHALE}' GROUP BY ALL ORDER BY ALL"
    assert [row["nodes"] for row in assistant.rows("query", sql=sql)] == [1] * 6
    sql = f"SELECT address FROM map_nodes WHERE token_address = '{TIDE}' AND address IN ('{LEAVER}', '{NEWCOMER}')"
    assert len(assistant.rows("query", sql=sql)) == 6
    exchanges = assistant.rows("query", sql="SELECT DISTINCT address FROM special_addresses ORDER BY ALL")
    assert {EXCHANGE, POOL} <= {row["address"] for row in exchanges}


def test_exact_amounts_are_texts(assistant: Assistant) -> None:
    sql = f"SELECT amount FROM map_nodes WHERE address = '{TEAM}' LIMIT 1"
    assert assistant.rows("query", sql=sql) == [{"amount": "123456789.000000000000000001"}]


# What an answer says of itself


def test_an_answer_has_its_sql_instants_coverage_and_problems(assistant: Assistant) -> None:
    answer = assistant.ask("concentration_history", token="TIDE")
    assert answer["as_of"] == ["2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"]
    assert {one["family"]: one["instants"] for one in answer["coverage"]}["maps"] == 6
    assert answer["has_all_rows"] is True
    again = assistant.ask("query", sql=answer["sql"])
    assert again["rows"] == answer["rows"]


def test_stale_data_is_named(assistant: Assistant) -> None:
    warnings = assistant.ask("clusters_as_of", token="TIDE", at="2026-11-24")["warnings"]
    assert any("2026-11-24" in one and "2026-06-01" in one for one in warnings)
    warnings = assistant.ask("clusters_as_of", token="TIDE", at="2026-06-01")["warnings"]
    assert not any("newest data" in one for one in warnings)


def test_a_part_of_an_answer_is_named(assistant: Assistant) -> None:
    answer = assistant.ask("query", sql=f"FROM map_nodes WHERE token_address = '{CROWD}'", rows=10)
    assert (len(answer["rows"]), answer["has_all_rows"]) == (10, False)
    assert "There are more than these 10 rows" in answer["warnings"][0]


def test_an_empty_answer_does_not_look_like_a_finding(assistant: Assistant) -> None:
    assert "No row" in assistant.ask("holders_as_of", token="tide", at="2020-01-01")["warnings"][0]


def test_an_unknown_token_is_refused_with_similar_ones(assistant: Assistant) -> None:
    assert "no token has the symbol tied; similar: " in assistant.refusal("holders_as_of", token="tied", at=JUNE)


def test_an_old_answer_has_a_warning(assistant: Assistant) -> None:
    warnings = assistant.ask("clusters_as_of", token="tide", at="2026-03-20")["warnings"]
    assert any("clusters_as_of('2026-03-20') answers with 2026-03-01 00:00 UTC for TIDE" in text for text in warnings)


def test_an_argument_that_a_tool_does_not_have_is_refused(assistant: Assistant) -> None:
    refusal = assistant.refusal("holders_as_of", token="tide", at=JUNE, limit=5)
    assert "holders_as_of has no argument limit; its arguments are: token, at, chain, top" in refusal
    assert "no argument x; its arguments are: none" in assistant.refusal("list_tables", x=1)


def test_wrong_arguments_are_explained(assistant: Assistant) -> None:
    assert "last summer" in assistant.refusal("holders_as_of", token="TIDE", at="last summer")
    assert "list_tables" in assistant.refusal("describe_tables", names=["nothing"])


# Tables, pictures, docs, prompts


def test_tables_are_described_with_columns_and_examples(assistant: Assistant) -> None:
    listed = assistant.ask("list_tables")["result"]
    assert {"maps", "concentration_history", "holders_as_of(t)"} <= {row[0] for row in listed}
    (maps,) = assistant.ask("describe_tables", names=["concentration_history"])["result"]
    assert "Example: " in maps["description"]
    assert "service_score" in {column[0] for column in maps["columns"]}


@pytest.mark.long
def test_a_map_is_a_picture(assistant: Assistant) -> None:
    found = assistant.wait(assistant.client.call_tool, "map_as_picture", {"token": "TIDE", "at": JUNE})
    sentence, picture = found.content
    assert "as of 2026-06-01 00:00 UTC: 2 clusters" in sentence.text
    assert (picture.mime_type, picture.data[:8]) == ("image/png", "iVBORw0K")
    assert "no map" in assistant.refusal("map_as_picture", token="NONE", at=JUNE)


def test_docs_and_prompts_are_offered(assistant: Assistant) -> None:
    listed = assistant.wait(assistant.client.list_resources).resources
    assert {"holderlake://docs/questions.md", "holderlake://docs/sql/clusters.md"} <= {str(one.uri) for one in listed}
    page = assistant.wait(assistant.client.read_resource, "holderlake://docs/questions.md")
    assert page.contents[0].text.startswith("# Twenty questions")
    prompts = assistant.wait(assistant.client.list_prompts).prompts
    assert "explain_cluster" in {one.name for one in prompts}
