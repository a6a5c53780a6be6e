"""A later version of a table at run time: the same schema with one more nullable column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pytest

from holderlake.core.contract import tables
from holderlake.core.warehouse.schema import queries

COLUMN: Final = "liquidity"


@pytest.fixture
def new_column(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Add a nullable column to ``holders``, and return its name. ``monkeypatch.undo`` takes it away again."""
    table = tables.TABLES["holders"]
    added = pa.field(COLUMN, pa.float64(), metadata={"comment": "Part that can be sold"})
    place = table.schema.get_field_index("fetched_at")
    schema = table.schema.insert(place, added)
    monkeypatch.setitem(table.__dict__, "schema", schema)
    monkeypatch.setitem(table.__dict__, "engine_schema", schema.remove(schema.get_field_index("fetched_at")))
    queries.cache_clear()
    yield COLUMN
    queries.cache_clear()
