"""Tables are explicit schemas, and amounts in them are exact."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holderlake.contract.tables import AMOUNT_TYPE, TABLES, Table, amount_columns, build, exact_amount, with_fetched_at

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
def test_an_amount_survives_its_two_columns_and_an_arrow_table(value: Decimal) -> None:
    row = build(TABLES["holders"], [HOLDER | amount_columns("amount", value)]).to_pylist()[0]
    assert exact_amount(row, "amount") == value


@settings(deadline=None)
@given(amounts)
def test_the_exact_text_stands_only_where_the_decimal_column_can_not_hold_the_value(value: Decimal) -> None:
    columns = amount_columns("amount", value)
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


def test_a_missing_amount_is_null_twice() -> None:
    assert amount_columns("total_value", None) == {"total_value": None, "total_value_exact": None}
    assert exact_amount(amount_columns("total_value", None), "total_value") is None


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_a_table_begins_with_the_common_columns_and_ends_with_when_it_was_learnt(table: Table) -> None:
    assert table.schema.names[:2] == ["chain", "as_of"]
    assert table.schema.names[-1] == "fetched_at"
    assert table.engine_schema.names == table.schema.names[:-1]
    assert set(table.key) <= set(table.schema.names)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_every_column_says_what_it_holds(table: Table) -> None:
    assert all(field.metadata[b"comment"] for field in table.schema)
    assert table.row


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_every_amount_is_a_decimal_beside_its_exact_text(table: Table) -> None:
    for field in table.schema:
        if field.name in ("amount", "total_value"):
            assert field.type == AMOUNT_TYPE
            assert table.schema.field(f"{field.name}_exact").type == pa.string()


def test_rows_become_a_table_of_the_declared_schema() -> None:
    rows = build(TABLES["holders"], [HOLDER])
    assert rows.schema == TABLES["holders"].engine_schema
    assert rows["label"].null_count == 1


def test_rows_with_the_instant_of_learning_have_the_whole_schema() -> None:
    whole = build(TABLES["holders"], [HOLDER], NOON)
    assert whole.schema == TABLES["holders"].schema
    assert with_fetched_at(TABLES["holders"], build(TABLES["holders"], [HOLDER]), NOON) == whole


def test_no_rows_make_an_empty_table_of_the_same_schema() -> None:
    assert build(TABLES["holders"], []).schema == TABLES["holders"].engine_schema


def test_a_column_that_the_table_does_not_have_is_refused_by_name() -> None:
    with pytest.raises(KeyError, match="colour"):
        build(TABLES["holders"], [HOLDER | {"colour": "red"}])


def test_a_required_column_may_not_be_null() -> None:
    with pytest.raises(pa.ArrowInvalid, match="address may not be null"):
        build(TABLES["holders"], [HOLDER | {"address": None}])


def test_a_value_of_a_wrong_type_is_refused() -> None:
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
        build(TABLES["holders"], [HOLDER | {"rank": "first"}])
