"""The format of an answer by the ``Accept`` header."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holderlake.core.contract.tables import TABLES
from holderlake.service.output.formats import Format, format_of

ARROW, PARQUET = Format.ARROW.value, Format.PARQUET.value


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, Format.JSON),
        ("*/*", Format.JSON),
        ("text/html", Format.JSON),
        ("application/json", Format.JSON),
        (ARROW, Format.ARROW),
        (PARQUET, Format.PARQUET),
        (f"{ARROW}, application/json", Format.ARROW),
        (f"{ARROW};q=0.5, application/json", Format.JSON),
        (f"{ARROW};q=0.2, {PARQUET};q=0.9, */*;q=0.1", Format.PARQUET),
        (f"{ARROW};q=0", Format.JSON),
        (f"{ARROW};q=many", Format.JSON),
        ("APPLICATION/VND.APACHE.PARQUET;Q=1", Format.PARQUET),
    ],
)
def test_accept_header_selects_the_format(accept, form):
    assert format_of(accept) is form


def test_holders_as_arrow_and_parquet_equal_the_engines_rows(caller, world):
    path = f"/v0/tokens/holders/eth/{world.token}?return_metadata=true"
    as_json = caller.http.get(path).json()
    arrow = caller.http.get(path, headers={"Accept": ARROW})
    assert arrow.headers["content-type"] == ARROW
    table = pa.ipc.open_stream(arrow.content).read_all()
    assert table.schema.names == TABLES["holders"].engine_schema.names
    assert table["address"].to_pylist() == [holder["address"] for holder in as_json]
    parquet = caller.http.get(path, headers={"Accept": PARQUET})
    assert pq.read_table(io.BytesIO(parquet.content)).drop_columns("as_of") == table.drop_columns("as_of")


def test_amounts_are_never_floats(caller, world):
    answer = caller.http.get(f"/v0/x/tokens/holders/eth/{world.wide}", headers={"Accept": ARROW})
    table = pa.ipc.open_stream(answer.content).read_all()
    assert not any(pa.types.is_floating(field.type) for field in table.schema if "amount" in field.name)
    assert table["amount_raw"].to_pylist() == [str(world.wide_amount)]


def test_answers_without_a_table_are_always_json(caller, world):
    answer = caller.http.get(f"/v0/tokens/map/eth/{world.token}", headers={"Accept": ARROW})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")


def test_errors_are_always_json(caller):
    answer = caller.http.get(f"/v0/tokens/holders/eth/0x{'f' * 40}", headers={"Accept": PARQUET})
    assert answer.json()["code"] == "unknown_token"
