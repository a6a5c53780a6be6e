"""Folders and names of the files of partitions."""

from __future__ import annotations

import re
from pathlib import PurePath

import pytest

from holderlake.core.contract.tables import FAMILY_TABLES, SIDE_TABLES, TABLES
from holderlake.core.storage import layout

CHAIN, TIMESTAMP = "eth", "20261120T000000Z"


def test_the_names_are_those_of_the_page_about_tables() -> None:
    folder = "chain=eth/timestamp=20261120T000000Z"
    assert layout.table_name("holders", CHAIN, TIMESTAMP, None) == f"holders/{folder}/part-0.parquet"
    assert layout.table_name("failures", CHAIN, TIMESTAMP, "maps") == f"failures/{folder}/part-maps.parquet"
    assert layout.manifest_name("maps", CHAIN, TIMESTAMP) == f"_manifests/{folder}/maps.json"


@pytest.mark.parametrize("family", FAMILY_TABLES)
def test_a_manifest_path_has_the_place_of_its_partition(family: str) -> None:
    place = (family, CHAIN, TIMESTAMP)
    assert layout.place_of(PurePath("lake", layout.manifest_name(*place))) == place


@pytest.mark.parametrize("table", TABLES)
def test_the_path_of_a_table_has_its_family(table: str) -> None:
    family = TABLES[table].family or "maps"
    assert layout.family_of(PurePath(layout.table_name(table, CHAIN, TIMESTAMP, family))) == family


@pytest.mark.parametrize("name", ["holders/c/t/part-maps.parquet", "failures/c/t/part-0.parquet"])
def test_a_file_of_no_partition_has_no_family(name: str) -> None:
    assert layout.family_of(PurePath(name)) is None


@pytest.mark.parametrize("table", ["holders", *SIDE_TABLES])
def test_the_pattern_of_objects_matches_their_names(table: str) -> None:
    assert re.fullmatch(layout.OBJECT, layout.object_name(table, CHAIN, TIMESTAMP, "holders", "ab" * 32))
