"""Tables have explicit schemas, and amounts in them are exact."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holderlake.core.contract.tables import AMOUNT_TYPE, TABLES, Table, amount_columns, build, with_fetched_at
from tests.helpers.amounts import exact_amount

NOON = datetime(2026, 11, 20, 12)
HOLDER = {
    "chain": "eth",
    "as_of": NOON,
    "token_address": "0x7",
    "rank": 1,
    "address": "0xa",
    "share": 0.5,
    **amount_columns("amount", Decimal("1.5")),
}


def exact(raw: int, places: int) -> Decimal:
    return Decimal((0, tuple(map(int, str(raw))), -places))


amounts = st.builds(exact, st.integers(0, 2**256 - 1), st.integers(0, 77))


@settings(deadline=None)
@given(amounts)
def test_an_amount_is_exact_in_its_two_columns_and_in_an_arrow_table(value: Decimal) -> None:
    columns = amount_columns("amount", value)
    row = build(TABLES["holders"], [HOLDER | columns]).to_pylist()[0]
    assert exact_amount(row, "amount") == value
    assert (columns["amount_exact"] is None) == (columns["amount"] == value)


@pytest.mark.parametrize(
    ("value", "decimal", "text"),
    [
        ("0", "0", None),
        ("1.5", "1.5", None),
        ("0.000000000000000001", "0.000000000000000001", None),
        ("0.0000000000000000015", "0.000000000000000002", "0.0000000000000000015"),
        ("99999999999999999998", "99999999999999999998", None),
        ("100000000000000000000", None, "100000000000000000000"),
        ("1E+30", None, "1000000000000000000000000000000"),
    ],
)
def test_amounts_at_the_edges_of_the_decimal_column(value: str, decimal: str | None, text: str | None) -> None:
    columns = amount_columns("amount", Decimal(value))
    assert columns == {"amount": None if decimal is None else Decimal(decimal), "amount_exact": text}


def test_a_missing_amount_is_null_in_both_columns() -> None:
    assert amount_columns("total_value", None) == {"total_value": None, "total_value_exact": None}
    assert exact_amount(amount_columns("total_value", None), "total_value") is None


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_a_table_has_the_common_columns_comments_and_exact_amounts(table: Table) -> None:
    names = table.schema.names
    assert (names[:2], names[-1], names[:-1]) == (["chain", "as_of"], "fetched_at", table.engine_schema.names)
    assert set(table.key) <= set(names)
    assert table.row
    for field in table.schema:
        assert field.metadata[b"comment"]
        if field.name in ("amount", "total_value"):
            assert field.type == AMOUNT_TYPE
            assert table.schema.field(f"{field.name}_exact").type == pa.string()


def test_rows_become_a_table_of_the_declared_schema() -> None:
    table = TABLES["holders"]
    rows = build(table, [HOLDER])
    assert rows.schema == build(table, []).schema == table.engine_schema
    assert rows["label"].null_count == 1


@pytest.mark.parametrize(
    ("changed", "error", "reason"),
    [
        ({"colour": "red"}, KeyError, "colour"),
        ({"address": None}, pa.ArrowInvalid, "address may not be null"),
        ({"rank": "first"}, (pa.ArrowInvalid, pa.ArrowTypeError), "first"),
    ],
)
def test_rows_that_do_not_fit_the_schema_are_refused(changed: dict[str, Any], error: Any, reason: str) -> None:
    with pytest.raises(error, match=reason):
        build(TABLES["holders"], [HOLDER | changed])


def test_rows_with_a_time_of_fetching_have_the_complete_schema() -> None:
    whole = build(TABLES["holders"], [HOLDER], NOON)
    assert whole.schema == TABLES["holders"].schema
    assert with_fetched_at(TABLES["holders"], build(TABLES["holders"], [HOLDER]), NOON) == whole
