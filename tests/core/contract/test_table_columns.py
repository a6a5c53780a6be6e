"""Tables built from columns are checked like tables built from rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from holderlake.core.contract.tables import INSTANT_TYPE, TABLES, assemble, build, with_fetched_at

AS_OF = datetime(2026, 11, 20)
MEMBERS = TABLES["cluster_members"]
COMMON = {"chain": pa.scalar("eth"), "as_of": pa.scalar(AS_OF, INSTANT_TYPE), "token_address": pa.scalar("native")}


def columns(**changed: Any) -> dict[str, Any]:
    return {"cluster_id": [1, 2], "address": pa.array(["a", "b"]), "kind": ["holder", "magic"]} | changed


def test_columns_give_the_same_table_as_rows() -> None:
    rows = [
        {
            "chain": "eth",
            "as_of": AS_OF,
            "token_address": "native",
            "cluster_id": number,
            "address": address,
            "kind": kind,
        }
        for number, address, kind in ((1, "a", "holder"), (2, "b", "magic"))
    ]
    assembled = assemble(MEMBERS, 2, COMMON, columns())
    assert assembled == build(MEMBERS, rows)
    assert assembled.schema.equals(MEMBERS.engine_schema, check_metadata=True)


def test_a_missing_column_is_null() -> None:
    common = {"chain": COMMON["chain"], "as_of": COMMON["as_of"]}
    chains = assemble(TABLES["chains"], 2, common, {"name": ["Ethereum", "Base"]})
    assert chains["coingecko_id"].to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"colour": ["red", "blue"]}, KeyError),
        ({"kind": ["holder", None]}, pa.ArrowInvalid),
        ({"kind": None}, pa.ArrowInvalid),
        ({"kind": ["holder"]}, pa.ArrowInvalid),
        ({"cluster_id": ["one", "two"]}, pa.ArrowInvalid),
    ],
)
def test_columns_that_do_not_fit_are_refused(changed: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        assemble(MEMBERS, 2, COMMON, columns(**changed))


@pytest.mark.parametrize("count", [0, 2])
def test_the_time_of_fetching_is_the_last_column(count: int) -> None:
    rows = assemble(MEMBERS, 2, COMMON, columns()).slice(0, count)
    stamped = with_fetched_at(MEMBERS, rows, datetime(2026, 11, 21, 1, 2, 3, 4))
    assert stamped.schema.equals(MEMBERS.schema, check_metadata=True)
    assert stamped["fetched_at"].to_pylist() == [datetime(2026, 11, 21, 1, 2, 3, 4)] * count
    assert stamped.drop_columns("fetched_at") == rows


def test_rows_of_a_looser_schema_are_cast() -> None:
    rows = assemble(MEMBERS, 2, COMMON, columns())
    loose = rows.cast(pa.schema([pa.field(field.name, field.type) for field in rows.schema]))
    assert with_fetched_at(MEMBERS, loose, AS_OF).schema.equals(MEMBERS.schema, check_metadata=True)
