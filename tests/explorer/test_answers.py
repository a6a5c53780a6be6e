"""Answers of the explorer that need no server."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from holderlake.explorer.answers import history
from holderlake.explorer.published import Published
from holderlake.lake.lake import Lake
from holderlake.warehouse.warehouse import Warehouse
from tests.lakes import DAYS, rows, write, write_holders


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
