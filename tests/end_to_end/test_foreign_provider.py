"""A provider that others wrote after the same description: what it answers lands, and what cannot is named by place."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from holderlake.assets.addresses import ADDRESSES
from holderlake.assets.chains import CHAINS
from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.assets.subgraphs import SUBGRAPHS
from holderlake.assets.tokens import TOKENS
from holderlake.core.contract.times import from_unix
from holderlake.core.decoding.answers import PARTIAL
from holderlake.core.ingest.stream import Stream
from holderlake.core.settings import Settings
from holderlake.core.workspace import Endpoint, Workspace
from tests.end_to_end.foreign_provider import BEYOND_HOLDERS, BEYOND_MAP, Beyond, ForeignProvider, Question
from tests.helpers.amounts import exact_amount
from tests.helpers.filling import fill

pytestmark = pytest.mark.integration

CHAIN_IDS = ("eth", "base", "bsc")
TOKENS_OF = [f"0x{number:040x}" for number in range(1, 11)]
INSTANTS = [datetime(2026, 1, 1) + timedelta(days=day) for day in range(5)]
SETS = {f"set {n}": {"addresses": [f"0x{n:040x}", f"0x{n + 1:040x}"], "chain": "eth"} for n in range(1, 20)}
Rows = list[tuple[Any, ...]]


@pytest.fixture
def provider() -> Iterator[ForeignProvider]:
    with ForeignProvider().serving() as served:
        yield served


def workspace_of(provider: ForeignProvider, home: Path, chains: Sequence[str] = CHAIN_IDS) -> Workspace:
    settings = Settings(
        home=home,
        watchlist={chain: TOKENS_OF for chain in chains},
        address_sets=SETS,
        provider={"attempts": 1},
    )
    return Workspace(settings, lambda: Endpoint(provider.address, SecretStr("a key"), "foreign"))


def fill_all(workspace: Workspace, families: Sequence[Stream], chains: Sequence[str], instants: list[datetime]) -> None:
    for family in families:
        for chain in chains:
            fill(workspace, family, chain, *instants)


@pytest.mark.long
def test_300_documents_inside_the_bounds_land_completely(provider: ForeignProvider, tmp_path: Path) -> None:
    families = (CHAINS, TOKENS, HOLDERS, MAPS, SUBGRAPHS, ADDRESSES)
    with closing(workspace_of(provider, tmp_path)) as workspace:
        fill_all(workspace, families, CHAIN_IDS, INSTANTS)
        assert len(provider.sent) >= 300
        assert provider.unknown == [], "only paths of the contract are requested"
        blocks = ("nodes", "relationships", "clusters")
        maps = [document for question, document in provider.sent.items() if question.endpoint == "map"]
        lacking = Counter(f"$.{block}" for document in maps for block in blocks if document.get(block) is None)
        failures = workspace.lake.read("failures")
        assert Counter(failures["place"].to_pylist()) == lacking
        assert set(failures["code"].to_pylist()) == {"missing_content"}
        for chain in CHAIN_IDS:
            for family in (HOLDERS, MAPS):
                for instant in INSTANTS:
                    manifest = workspace.lake.manifest(family.name, chain, instant)
                    assert manifest is not None
                    assert manifest.covered == set(TOKENS_OF)
        assert landed(workspace, "eth") == expected(provider, "eth")
        documents = Counter(question.endpoint for question in provider.sent)
        assert documents["tokens"] == len(CHAIN_IDS)
        assert workspace.lake.read("tokens", "eth", INSTANTS[0]).num_rows == len(TOKENS_OF)
        assert workspace.lake.read("chains").num_rows == len(CHAIN_IDS) * len(INSTANTS)
        sent = [len(plain) for question, plain in provider.sent.items() if question.endpoint == "subgraph"]
        assert workspace.lake.read("subgraph_transfers", "eth", INSTANTS[0]).num_rows == sum(sent)


def test_documents_beyond_the_bounds_land_but_for_the_places_they_name(
    provider: ForeignProvider, tmp_path: Path
) -> None:
    kinds: dict[str, Iterator[Beyond]] = {"holders": cycle(BEYOND_HOLDERS), "map": cycle(BEYOND_MAP)}
    provider.choose = lambda question: next(kinds[question.endpoint]) if question.endpoint in kinds else None
    with closing(workspace_of(provider, tmp_path, ["eth"])) as workspace:
        fill_all(workspace, (HOLDERS, MAPS), ["eth"], INSTANTS)
        assert len(provider.beyond) >= 50
        failures = workspace.lake.read("failures").to_pylist()
        named = {}
        for row in failures:
            endpoint = Question(row["endpoint"], row["subject"], row["chain"], _unix(row["as_of"]))
            assert endpoint not in named, "one place for one change"
            named[endpoint] = row
        for question, (name, _, place) in provider.beyond.items():
            row = named.pop(question, None)
            if place is None:
                assert row is None, (name, row)
                continue
            assert row is not None, name
            assert row["answer_hash"] == hashlib.sha256(provider.raw[question]).hexdigest()
            if place:
                assert (row["place"], row["code"] in PARTIAL) == (place, True), name
            else:
                assert (row["place"], row["code"]) == (None, "malformed_answer"), name
                assert "line" in row["reason"] or "$" in row["reason"], row["reason"]
        assert not named
        assert landed(workspace, "eth") == expected(provider, "eth")
        assert workspace.warehouse.load(workspace.lake).damaged == ()
        issues = set(workspace.warehouse.query("SELECT DISTINCT issue FROM data_quality")["issue"].to_pylist())
        assert issues >= {"share_range", "rank_gap", "repeated_row", "several_scores", "unreadable_row", "odd_address"}
        assert issues >= {"unreadable_value", "missing_value", "odd_text", "unknown_relationship", "failure"}


# What the documents say, read without this project's decoder


def _unix(instant: datetime) -> int:
    return int((instant - datetime(1970, 1, 1)).total_seconds())


def expected(provider: ForeignProvider, chain: str) -> dict[str, Counter[tuple[Any, ...]]]:
    """The rows that the documents of one chain hold, without those that their change made unreadable."""
    found: dict[str, Counter[tuple[Any, ...]]] = {
        name: Counter() for name in ("holders", "map_nodes", "grouped_transfers", "clusters", "cluster_members", "maps")
    }
    for question, plain in provider.sent.items():
        _, _, place = provider.beyond.get(question, ("", None, None))
        if place == "" or question.chain != chain:
            continue
        about = (question.subject, from_unix(question.timestamp or 0))
        if question.endpoint == "holders":
            found["holders"].update((*about, *_held(one)) for one in plain if _is_named(one))
        else:
            for table, rows in _of_map(plain).items():
                found[table].update((*about, *row) for row in rows)
    return found


def _of_map(plain: Any) -> dict[str, Rows]:
    nodes = plain.get("nodes") if isinstance(plain.get("nodes"), dict) else {}
    windows = nodes.get("time_nodes") or []
    edges = [(edge, None) for edge in plain.get("relationships") or []]
    edges += [(edge, number) for number, node in enumerate(windows, 1) for edge in node["relationships"]]
    clusters = sorted(plain.get("clusters") or [], key=lambda one: -float(one["share"]))
    scores = plain["metrics"].get("scores", {})
    score = scores.get("service_score")
    return {
        "maps": [(float(score) if isinstance(score, Decimal) else None, "other_score" in scores)],
        "map_nodes": [
            *(("top_holder", *_held(one)) for one in nodes.get("top_holders") or [] if _is_named(one)),
            *(("magic", *_held(one)) for one in nodes.get("magic_nodes") or []),
            *(("time", *_held(one)) for one in windows),
        ],
        "grouped_transfers": [(*_edge(edge), number) for edge, number in edges if edge["to_address"]],
        "clusters": [(n, float(one["share"]), one["amount"]) for n, one in enumerate(clusters, 1)],
        "cluster_members": [
            (number, address)
            for number, one in enumerate(clusters, 1)
            for address in one["holders"] + one["magic_nodes"]
            if address
        ],
    }


def _is_named(one: Any) -> bool:
    return isinstance(one, dict) and isinstance(one.get("address"), str)


def _held(one: Any) -> tuple[Any, ...]:
    """Address, rank, amount, share and label of a holder or node; what no column holds is None."""
    held = one.get("holder_data") if isinstance(one.get("holder_data"), dict) else {}
    rank, amount, share = held.get("rank"), held.get("amount"), held.get("share")
    label = (one.get("address_details") or {}).get("label")
    return (
        one["address"],
        None if rank is None else int(rank),
        amount if isinstance(amount, Decimal) else None,
        float(share) if isinstance(share, Decimal) and share < 10 else None,
        "replaced" if label and "\ud800" in label else label,
    )


def _edge(edge: Any) -> tuple[Any, ...]:
    data = edge["data"]
    if edge.get("rel_type", "GROUPED_TRANSFER") != "GROUPED_TRANSFER":
        return (edge["from_address"], edge["to_address"], edge["rel_type"], None, None, None, None, None)
    key = data["token_key"] if isinstance(data["token_key"], dict) else {}
    dates = [from_unix(int(data[name])) if data[name] < 10**12 else None for name in ("first_date", "last_date")]
    return (
        edge["from_address"],
        edge["to_address"],
        "GROUPED_TRANSFER",
        data["total_value"],
        *dates,
        key.get("chain"),
        key.get("address"),
    )


def landed(workspace: Workspace, chain: str) -> dict[str, Counter[tuple[Any, ...]]]:
    """The same rows in the lake."""

    def rows(table: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        for row in workspace.lake.read(table, chain).to_pylist():
            yield (row["token_address"], row["as_of"]), row

    def held(row: dict[str, Any]) -> tuple[Any, ...]:
        label = "replaced" if row["label"] and "\ufffd" in row["label"] else row["label"]
        return (row["address"], row["rank"], exact_amount(row, "amount"), row["share"], label)

    ends = ("from_address", "to_address", "rel_type")
    token = ("first_date", "last_date", "transfer_chain", "transfer_token", "time_node")
    return {
        "holders": Counter((*about, *held(row)) for about, row in rows("holders")),
        "map_nodes": Counter((*about, row["kind"], *held(row)) for about, row in rows("map_nodes")),
        "grouped_transfers": Counter(
            (
                *about,
                *(row[name] for name in ends),
                exact_amount(row, "total_value"),
                *(row[name] for name in token),
            )
            for about, row in rows("grouped_transfers")
        ),
        "clusters": Counter(
            (*about, row["cluster_id"], row["share"], exact_amount(row, "amount")) for about, row in rows("clusters")
        ),
        "cluster_members": Counter(
            (*about, row["cluster_id"], row["address"]) for about, row in rows("cluster_members")
        ),
        "maps": Counter((*about, row["service_score"], row["other_scores"] is not None) for about, row in rows("maps")),
    }
