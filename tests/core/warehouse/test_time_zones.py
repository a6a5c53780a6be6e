"""Each session is in UTC, in whatever zone the machine is, and no offset of a time is ignored."""

from __future__ import annotations

import json
import os
from pathlib import Path

import duckdb
import pytest

from holderlake.core.warehouse.connections import WarehouseError, one_read, prepared
from tests.helpers.processes import ROOT, run

OFFSET = "'2025-11-01T02:00:00+02:00'"


@pytest.mark.parametrize(
    "condition",
    [
        f"timestamp >= {OFFSET}",
        f"{OFFSET.replace('T', ' ')}::TIMESTAMP < timestamp",
        f"timestamp BETWEEN '2025-01-01' AND {OFFSET}",
        f"timestamp IN ({OFFSET})",
        f"timestamp = TIMESTAMP {OFFSET}",
        f"CAST({OFFSET} AS TIMESTAMP) = timestamp",
        "timestamp >= '2025-11-01 02:00 Europe/Berlin'",
        "timestamp >= '2025-11-01 02:00:00-0330'",
    ],
)
def test_a_time_whose_offset_duckdb_would_ignore_is_refused(condition: str) -> None:
    with prepared(duckdb.connect()) as connection, pytest.raises(WarehouseError, match=r"write instant\('2025-11-01"):
        one_read(connection, f"SELECT 1 FROM (SELECT TIMESTAMP '2025-11-01' AS timestamp) WHERE {condition}")


@pytest.mark.parametrize(
    "condition",
    [
        f"timestamp = {OFFSET}::TIMESTAMPTZ",
        f"timestamp = TIMESTAMPTZ {OFFSET}",
        f"timestamp = CAST({OFFSET} AS TIMESTAMP WITH TIME ZONE)",
        "timestamp = '2025-11-01T00:00:00Z'",
        "timestamp = '2025-11-01 00:00:00+00:00'",
        "timestamp = '2025-11-01'",
    ],
)
def test_a_time_that_duckdb_reads_rightly_is_accepted(condition: str) -> None:
    with prepared(duckdb.connect()) as connection:
        sql = f"SELECT 1 FROM (SELECT TIMESTAMP '2025-11-01' AS timestamp) WHERE {condition}"
        assert connection.execute(one_read(connection, sql)).fetchall() == [(1,)]


@pytest.mark.integration
def test_each_door_is_in_utc_on_a_machine_in_another_zone(tmp_path: Path) -> None:
    script = f"""
import json
from pathlib import Path
from tests.core.warehouse.test_guard import DOORS
from tests.core.warehouse.test_transfers import Home
home = Home(Path({str(tmp_path)!r}))
home.warehouse.load(home.lake)
zones = {{}}
for name, door in DOORS.items():
    rows = door(home, "SELECT current_setting('TimeZone') AS zone")
    zones[name] = rows.rows[0][0] if name == "mcp" else None if name == "export" else rows["zone"].to_pylist()[0]
zones["export"] = home.warehouse.path.with_name("x.csv").read_text().split()[1].strip('"')
print(json.dumps(zones))
"""
    done = run(script, env=os.environ | {"TZ": "Asia/Kolkata", "PYTHONPATH": str(ROOT)})
    assert set(json.loads(done.stdout).values()) == {"UTC"}, done.stderr
