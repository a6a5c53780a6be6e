"""Bad input: each kind has the right outcome, and nothing is half written."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import SecretStr

from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.assets.tokens import TOKENS
from holderlake.cli.import_files import Reading, import_paths
from holderlake.core.contract.requests import ChainsRequest
from holderlake.core.ingest.run import ingest
from holderlake.core.ingest.stream import IngestContext, PartitionResult, Stream
from holderlake.core.lake.lake import LakeError
from holderlake.core.provider.errors import CreditsExhausted, Forbidden, InvalidKey, Redirected, Unavailable
from holderlake.core.settings import Settings
from holderlake.core.workspace import Endpoint
from holderlake.engine.errors import BadSource
from holderlake.engine.store.store import Store
from holderlake.operations.doctor.doctor import listed
from tests.helpers.filling import MakeWorkspace
from tests.helpers.misbehaving import Misbehaving, Step, answer, error, half, reset

MAY = datetime(2026, 5, 1)
GOOD, BAD = "0x" + "a" * 40, "0x" + "b" * 40
HOLDER = {"address": "0xh", "address_details": None, "holder_data": {"amount": 1.5, "rank": 1, "share": 0.5}}
LINK = {"total_value": 1.25, "total_transfers": 2, "first_date": 1, "last_date": 2}
MAP: dict[str, Any] = {
    "metadata": {"dt_update": "2026-05-01T00:00:00.000000", "ts_update": 1},
    "metrics": {
        "supply_stats": dict.fromkeys(
            ("cexs", "dexs", "contracts", "fresh_wallets", "top_10_adjusted", "bundles"), 0.1
        ),
        "scores": {
            "service_score": 50.0,
            "gini_index": 0.5,
            "herfindahl_hirschman_index": 0.1,
            "nakamoto_coefficient": 3,
        },
    },
    "nodes": {"top_holders": [], "magic_nodes": None, "time_nodes": None},
    "relationships": [],
    "clusters": [],
}


def _fill(workspace: Any, family: Stream, server: Misbehaving) -> Any:
    async def run() -> list[PartitionResult]:
        async with server:
            endpoint = workspace._endpoint()
            workspace._endpoint = lambda: type(endpoint)(server.address, endpoint.api_key, "misbehaving")
            async with workspace.fetcher("run") as fetcher:
                return await ingest(IngestContext(fetcher, workspace), family, "eth", [MAY])

    return asyncio.run(run())


def _workspace(make_workspace: MakeWorkspace, *tokens: str) -> Any:
    settings = {"attempts": 1, "concurrency": 1}
    return make_workspace(watchlist={"eth": list(tokens)}, provider=settings)


CHARGED = {"X-Credits-Cost": "15.00"}
"""Without a charge, a web page or cut JSON is no answer, and is requested again."""
MALFORMED: dict[str, Step] = {
    "an HTML page": answer(b"<html><body>Maintenance</body></html>", headers={"Content-Type": "text/html"} | CHARGED),
    "truncated JSON": answer(json.dumps([HOLDER]).encode()[:-20], headers=CHARGED),
    "an object for a list": answer({}, headers=CHARGED),
}
ODD: dict[str, tuple[Step, int, list[tuple[str, str]]]] = {
    "a share above 1": (answer(json.dumps([HOLDER]).replace("0.5", "1.5").encode()), 1, []),
    "the same holder twice": (answer([HOLDER, HOLDER]), 2, []),
    "NaN": (
        answer(json.dumps([HOLDER]).replace("1.5", "NaN").encode()),
        1,
        [("unreadable_value", "$[0].holder_data.amount")],
    ),
    "an amount in words": (
        answer(json.dumps([HOLDER]).replace("1.5", '"much"').encode()),
        1,
        [("unreadable_value", "$[0].holder_data.amount")],
    ),
    "a holder without an address": (
        answer([HOLDER, HOLDER | {"address": None}]),
        1,
        [("unreadable_row", "$[1].address")],
    ),
}
"""Answers, the number of committed rows, and the unreadable places."""


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_answer_becomes_failure_and_other_token_lands(make_workspace: MakeWorkspace, kind: str) -> None:
    workspace = _workspace(make_workspace, BAD, GOOD)
    (landed,) = _fill(workspace, HOLDERS, Misbehaving([MALFORMED[kind], answer([HOLDER])]))
    (failure,) = workspace.lake.read("failures", "eth", MAY).to_pylist()
    assert failure["code"] == "malformed_answer"
    assert landed.rows == {"holders": 1}
    kept = {answer.sha256 for answer in workspace.archive}  # every paid answer is kept, readable or not
    assert len(kept) == 2
    assert failure["answer_hash"] in kept


@pytest.mark.parametrize("kind", ODD)
def test_odd_answer_lands_and_its_unreadable_places_are_named(make_workspace: MakeWorkspace, kind: str) -> None:
    step, rows, places = ODD[kind]
    workspace = _workspace(make_workspace, BAD, GOOD)
    (landed,) = _fill(workspace, HOLDERS, Misbehaving([step, answer([HOLDER])]))
    failures = workspace.lake.read("failures", "eth", MAY).to_pylist()
    assert [(row["code"], row["place"]) for row in failures] == places
    assert {row["subject"] for row in failures} <= {BAD}
    assert {row["answer_hash"] for row in failures} <= {kept.sha256 for kept in workspace.archive}
    assert landed.rows == {"holders": rows + 1}
    manifest = workspace.lake.manifest("holders", "eth", MAY)
    assert manifest is not None
    assert manifest.covered == {BAD, GOOD}


@pytest.mark.parametrize("key", ["a key", "the key"])
def test_no_reason_repeats_the_key(make_workspace: MakeWorkspace, key: str) -> None:
    settings = {"attempts": 1}
    workspace = make_workspace(watchlist={"eth": [BAD, GOOD]}, provider=settings, secret=key)
    odd = HOLDER | {"holder_data": {"rank": key}}
    _fill(workspace, HOLDERS, Misbehaving([answer([odd]), answer(f"<html>{key}".encode())]))
    reasons = workspace.lake.read("failures", "eth", MAY)["reason"].to_pylist()
    assert len(reasons) == 2
    assert not any(key in reason for reason in reasons)


def test_a_bad_item_of_a_batch_costs_only_its_own_token(make_workspace: MakeWorkspace) -> None:
    key = {"chain": "eth", "address": GOOD}
    good = {"token_key": key, "metadata": {"name": "N", "symbol": "S", "is_indexed": True}}
    workspace = _workspace(make_workspace, BAD, GOOD)
    (landed,) = _fill(
        workspace, TOKENS, Misbehaving([answer([good | {"token_key": {"chain": 5, "address": BAD}}, good])])
    )
    assert landed.rows == {"tokens": 1}
    failures = workspace.lake.read("failures", "eth", MAY).to_pylist()
    assert [(row["subject"], row["code"], row["place"]) for row in failures] == [
        (BAD, "left_out", None),
        (BAD, "unreadable_row", "$[0].token_key.chain"),
    ]
    manifest = workspace.lake.manifest("tokens", "eth", MAY)
    assert manifest is not None
    assert manifest.covered == {GOOD}


def test_chains_are_listed_without_the_one_that_cannot_be_read(make_workspace: MakeWorkspace) -> None:
    workspace = _workspace(make_workspace, GOOD)

    async def ask() -> list[str]:
        async with Misbehaving([answer([{"id": "eth"}, {"name": "Nameless"}, {"id": "base"}])]) as server:
            workspace._endpoint = lambda: Endpoint(server.address, SecretStr("a key"), "misbehaving")
            async with workspace.fetcher("run") as fetcher:
                return listed(await fetcher.fetch(ChainsRequest(), "known"))

    assert asyncio.run(ask()) == ["eth", "base"]


def test_reason_and_hash_of_a_failure_name_the_same_answer(make_workspace: MakeWorkspace) -> None:
    workspace = _workspace(make_workspace, GOOD)
    _fill(workspace, HOLDERS, Misbehaving([answer(b"<html>", headers=CHARGED)]))
    (failure,) = workspace.lake.read("failures", "eth", MAY).to_pylist()
    assert re.findall("[0-9a-f]{64}", failure["reason"]) == [failure["answer_hash"]]


@pytest.mark.parametrize(
    ("step", "code"), [(error(500), "unavailable"), (reset(), "unreachable"), (half(MAP), "broken_answer")]
)
def test_error_for_one_token_fails_only_that_token(make_workspace: MakeWorkspace, step: Step, code: str) -> None:
    workspace = _workspace(make_workspace, BAD, GOOD)
    (landed,) = _fill(workspace, HOLDERS, Misbehaving([step, answer([HOLDER])]))
    assert [row["code"] for row in workspace.lake.read("failures", "eth", MAY).to_pylist()] == [code]
    assert landed.rows == {"holders": 1}


def test_run_fails_if_no_token_is_answered_and_the_next_run_resumes(
    make_workspace: MakeWorkspace,
) -> None:
    workspace = _workspace(make_workspace, BAD, GOOD)
    with pytest.raises(Unavailable):
        _fill(workspace, HOLDERS, Misbehaving([error(503)]))
    (landed,) = _fill(workspace, HOLDERS, Misbehaving([answer([HOLDER])]))
    assert (landed.rows, landed.failures) == ({"holders": 2}, 0)


def test_lake_refuses_answers_of_another_provider(make_workspace: MakeWorkspace) -> None:
    workspace = _workspace(make_workspace, GOOD)
    _fill(workspace, HOLDERS, Misbehaving([answer([HOLDER])]))
    with pytest.raises(LakeError, match="HOLDERLAKE_HOME"):
        make_workspace().check()


@pytest.mark.parametrize(
    ("step", "raised", "failed"),
    [
        (error(401, "invalid_key"), InvalidKey, ["invalid_key"]),
        (error(403), Forbidden, ["forbidden"]),
        (error(301, Location="https://elsewhere.example"), Redirected, ["redirected"]),
        (error(429, "credits_exhausted"), CreditsExhausted, []),
    ],
)
def test_permanent_refusal_stops_the_run_after_one_call(
    make_workspace: MakeWorkspace, step: Step, raised: type[Exception], failed: list[str]
) -> None:
    workspace = _workspace(make_workspace, BAD, GOOD)
    server = Misbehaving([step])
    with pytest.raises(raised):
        _fill(workspace, HOLDERS, server)
    assert len(server.received) == 1
    assert not workspace.lake.read("holders", "eth", MAY).num_rows
    assert [row["code"] for row in workspace.lake.read("failures", "eth", MAY).to_pylist()] == failed


def test_a_null_score_lands_as_null(make_workspace: MakeWorkspace) -> None:
    workspace = _workspace(make_workspace, GOOD)
    scores = MAP["metrics"]["scores"] | {"service_score": None}
    _fill(workspace, MAPS, Misbehaving([answer(MAP | {"metrics": MAP["metrics"] | {"scores": scores}})]))
    assert workspace.lake.read("maps", "eth", MAY)["service_score"].to_pylist() == [None]


def test_unknown_chains_and_relationship_types_keep_their_data(make_workspace: MakeWorkspace) -> None:
    key = {"chain": "chain-of-tomorrow", "address": "0xt"}
    relationships = [
        {"from_address": "0xa", "to_address": "0xb", "data": LINK | {"token_key": key}},
        {"from_address": "0xa", "to_address": "0xb", "rel_type": "FRIENDSHIP", "data": {"since": 1.10}},
    ]
    workspace = _workspace(make_workspace, GOOD)
    _fill(workspace, MAPS, Misbehaving([answer(MAP | {"relationships": relationships, "surprise": 1})]))
    rows = workspace.lake.read("grouped_transfers", "eth", MAY).to_pylist()
    assert [row["transfer_chain"] for row in rows] == ["chain-of-tomorrow", None]
    assert (rows[1]["rel_type"], json.loads(rows[1]["unknown_data"])) == ("FRIENDSHIP", {"since": 1.1})


def test_the_older_map_shape_lands_in_the_same_tables(make_workspace: MakeWorkspace) -> None:
    older = {
        "metadata": MAP["metadata"] | {"identified_supply": {"share_in_cexs": 0.25}},
        "nodes": MAP["nodes"],
        "relationships": None,
        "clusters": None,
        "decentralization_score": 42.5,
    }
    workspace = _workspace(make_workspace, GOOD)
    _fill(workspace, MAPS, Misbehaving([answer(older)]))
    (row,) = workspace.lake.read("maps", "eth", MAY).to_pylist()
    assert (row["service_score"], row["cexs"], row["gini_index"]) == (42.5, 0.25, None)


def _transfers(**changes: Any) -> pa.Table:
    row = {
        "chain": "eth",
        "token_address": GOOD,
        "token_standard": "erc20",
        "from_address": "0x" + "0" * 40,
        "to_address": BAD,
        "value": "5",
        "token_id": None,
        "block_number": 1,
        "block_time": 1_700_000_000,
        "tx_hash": "0x1",
        "log_index": 0,
        "time_kind": "exact",
        "log_index_kind": "exact",
        "source": "test",
    }
    return pa.Table.from_pylist([row, row | {"log_index": 1} | changes])


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"value": "-5"}, "-5"), ({"value": "five"}, "five"), ({"value": str(2**256)}, "256")],
)
def test_file_with_one_bad_amount_is_refused_completely(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    path = tmp_path / "bad.parquet"
    pq.write_table(_transfers(**changes), path)
    _refused(tmp_path, path, named)


def test_file_of_unknown_layout_is_refused_with_the_known_layouts(tmp_path: Path) -> None:
    path = tmp_path / "strange.csv"
    path.write_text("when,who\n1,2\n")
    _refused(tmp_path, path, "ethereum-etl")


def test_a_truncated_parquet_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "cut.parquet"
    pq.write_table(_transfers(), path)
    path.write_bytes(path.read_bytes()[:-30])
    _refused(tmp_path, path, "cut.parquet")


def _refused(folder: Path, path: Path, named: str) -> None:
    with pytest.raises(BadSource, match=named):
        import_paths(Settings(home=folder), [path], Reading(), as_json=True)
    with Store(folder / "engine") as store:
        assert store.histories() == []
