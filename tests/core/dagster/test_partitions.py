"""The first day of the partitions that Dagster's page shows."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetKey, MultiPartitionsDefinition

from holderlake.core.dagster.partitions import DAY, first_day
from holderlake.core.lake.lake import Lake
from holderlake.core.settings import Settings
from holderlake.pipelines.definitions import build_defs
from tests.helpers.lakes import write_holders

TODAY = date(2026, 11, 26)


@pytest.mark.parametrize(
    ("options", "oldest", "expected"),
    [
        ({}, None, date(2026, 10, 12)),
        ({"healing": {"days": 3}}, None, date(2026, 11, 23)),
        ({}, datetime(2024, 2, 3, 6), date(2024, 2, 3)),
        ({}, datetime(2026, 11, 1), date(2026, 10, 12)),
        ({"schedule": {"start": "2026-11-01"}}, datetime(2024, 2, 3), date(2026, 11, 1)),
    ],
)
def test_partitions_begin_with_the_oldest_data_or_the_setting(
    options: dict[str, Any], oldest: datetime | None, expected: date, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path, **options)
    if oldest:
        write_holders(Lake(settings.lake_folder), "eth", oldest, {"0xaa": {"0x01": 10}})
    assert first_day(settings, TODAY) == expected


def test_the_page_lists_few_missing_partitions_of_a_new_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    graph = build_defs().resolve_asset_graph()
    for table in ("chains", "holders", "maps", "warehouse"):
        partitions = graph.get(AssetKey(table)).partitions_def
        assert isinstance(partitions, MultiPartitionsDefinition)
        assert partitions.get_partitions_def_for_dimension(DAY).get_num_partitions() == 46
