"""Answers of the explorer that need no server."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest

from holderlake.core.contract.times import to_unix
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.engine.records import Label
from holderlake.engine.store.store import Store
from holderlake.presentation.explorer.answers import comparison, history, token_map, tokens
from holderlake.presentation.explorer.published import Published
from holderlake.sources.store import stored_transfers
from tests.helpers.lakes import DAYS, map_tables, rows, write, write_holders


@pytest.mark.long
def test_a_history_has_the_end_of_the_data_and_the_instants_after_it(tmp_path: Path) -> None:
    lake, warehouse = Lake(tmp_path / "lake"), Warehouse(tmp_path / "warehouse.duckdb")
    for day in (DAYS[1], DAYS[20]):
        write_holders(lake, "eth", day, {"0xquiet": {"0x1": 1}, "0xbusy": {"0x1": 1}})
    known = [{"token_address": token, "max_date": last} for token, last in (("0xquiet", DAYS[1]), ("0xbusy", DAYS[20]))]
    write(lake, "tokens", "eth", DAYS[20], {"tokens": rows("tokens", "eth", DAYS[20], known)}, {"0xquiet", "0xbusy"})
    warehouse.load(lake)
    with Published(warehouse).reader() as reader:
        quiet, busy = history(reader, "eth", "0xquiet"), history(reader, "eth", "0xbusy")
    assert quiet["token"]["data_end"] == [int(DAYS[1].replace(tzinfo=UTC).timestamp())]
    assert quiet["instants"]["days_after_data"] == [None, 19]
    assert (busy["token"]["data_end"], busy["instants"]["days_after_data"]) == ([None], [None, None])


@pytest.mark.long
def test_own_name_of_the_date_comes_before_the_fetched_one(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    warehouse = Warehouse(tmp_path / "warehouse.duckdb", lambda: stored_transfers(tmp_path / "engine"))
    held = [{"token_address": "0xt", "rank": 1, "address": "0xa", "label": "Theirs"}]
    for day in (DAYS[0], DAYS[10], DAYS[20]):
        write(lake, "holders", "eth", day, {"holders": rows("holders", "eth", day, held)}, {"0xt"})
    begin, end = to_unix(DAYS[5]), to_unix(DAYS[15])
    with Store(tmp_path / "engine") as store:
        store.add_labels([Label("0xa", None, "mine", "Ours", valid_from=begin, valid_to=end)])
    warehouse.load(lake)
    with Published(warehouse).reader() as reader:
        names = [token_map(reader, "eth", "0xt", day)["nodes"]["label"] for day in (DAYS[0], DAYS[10], DAYS[20])]
    assert names == [["Theirs"], ["Ours"], ["Theirs"]]


def test_changed_holders_have_the_names_of_the_maps(tmp_path: Path) -> None:
    """Lists that were fetched without details have no names; a holder that left is named by the earlier map."""
    lake, warehouse = Lake(tmp_path / "lake"), Warehouse(tmp_path / "warehouse.duckdb")
    for day, address, name in ((DAYS[0], "0xold", "Vesting"), (DAYS[1], "0xnew", "Pool")):
        write_holders(lake, "eth", day, {"0xt": {address: 5}})
        node = {
            "token_address": "0xt",
            "kind": "top_holder",
            "address": address,
            "label": name,
            "is_dex": name == "Pool",
        }
        maps = map_tables("eth", day, {"0xt": [[address]]}) | {"map_nodes": rows("map_nodes", "eth", day, [node])}
        write(lake, "maps", "eth", day, maps, {"0xt"})
    warehouse.load(lake)
    with Published(warehouse).reader() as reader:
        changes = comparison(reader, "eth", "0xt", DAYS[0], DAYS[1])
    named = {row[0]: row[1:] for row in zip(changes["address"], changes["label"], changes["is_dex"], strict=True)}
    assert named == {"0xold": ("Vesting", False), "0xnew": ("Pool", True)}


@pytest.mark.integration
def test_changed_holders_have_your_own_names_first(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    warehouse = Warehouse(tmp_path / "warehouse.duckdb", lambda: stored_transfers(tmp_path / "engine"))
    for day, address in ((DAYS[0], "0xa"), (DAYS[1], "0xb")):
        held = [{"token_address": "0xt", "rank": 1, "address": address, "label": "Theirs"}]
        write(lake, "holders", "eth", day, {"holders": rows("holders", "eth", day, held)}, {"0xt"})
    with Store(tmp_path / "engine") as store:
        store.add_labels([Label("0xb", None, "mine", "Ours")])
    warehouse.load(lake)
    with Published(warehouse).reader() as reader:
        changes = comparison(reader, "eth", "0xt", DAYS[0], DAYS[1])
    assert dict(zip(changes["address"], changes["label"], strict=True)) == {"0xa": "Theirs", "0xb": "Ours"}


@pytest.mark.long
def test_search_finds_a_wallet_by_its_own_name_only(tmp_path: Path) -> None:
    """The fetched name is not shown, so it finds nothing."""
    lake = Lake(tmp_path / "lake")
    warehouse = Warehouse(tmp_path / "warehouse.duckdb", lambda: stored_transfers(tmp_path / "engine"))
    held = [
        {"token_address": "0xt", "rank": 1, "address": "0xa", "label": "Theirs", "share": 0.2},
        {"token_address": "0xt", "rank": 2, "address": "0xb", "share": 0.1},
    ]
    write(lake, "holders", "eth", DAYS[0], {"holders": rows("holders", "eth", DAYS[0], held)}, {"0xt"})
    with Store(tmp_path / "engine") as store:
        store.add_labels([Label("0xa", None, "mine", "Ours"), Label("0xb", None, "mine", "Also ours")])
    warehouse.load(lake)
    with Published(warehouse).reader() as reader:
        ours, also, theirs = (tokens(reader, text) for text in ("ours", "also ours", "theirs"))
    assert (ours["wallet"], ours["wallet_label"], ours["share"]) == (["0xa"], ["Ours"], [0.2])
    assert (also["wallet"], also["wallet_label"]) == (["0xb"], ["Also ours"])
    assert theirs["chain"] == []
