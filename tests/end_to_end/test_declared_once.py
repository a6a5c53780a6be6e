"""A model declares an answer once: its fields pass from JSON through structs and columns, and back to JSON."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pytest
from pydantic import Field

from holderlake.core.contract import exact_json
from holderlake.core.contract.fields import Column, fields_of
from holderlake.core.contract.models import Amount, GroupedTransfer, HolderNode, Instant, Model, Share
from holderlake.core.contract.tables import TABLES, columns_of_model
from holderlake.core.decoding.answers import parse
from holderlake.core.decoding.tables import columns_of
from holderlake.service.output.render import objects


class Mood(Model):
    """Details that no answer has."""

    colour: str | None = Field(default=None, description="Colour")
    since: Instant | None = Field(default=None, description="First day of this mood")


class Visitor(HolderNode):
    """A node with a field of each kind more than the contract's."""

    nickname: Annotated[str | None, Column("shown_name")] = Field(default=None, description="Nickname")
    steps: int = Field(description="Steps")
    is_early: bool = Field(description="Came before the doors opened")
    debt: Amount = Field(description="Debt")
    weight: Share = Field(description="Weight")
    mood: Mood


DETAILS = {
    "degree": 3,
    "inward_relations": 2,
    "outward_relations": 1,
    "is_supernode": False,
    "is_contract": True,
    "is_cex": False,
    "is_dex": False,
    "label": "Ü",
    "entity_id": None,
    "first_activity_date": "2024-05-06T07:08:09Z",
    "is_paid_label": True,
}
VISITOR: dict[str, Any] = {
    "address": "0xa",
    "address_details": DETAILS,
    "is_shown_on_map": True,
    "holder_data": {"amount": 10.5, "rank": 1, "share": 0.1},
    "nickname": "Al",
    "steps": 7,
    "is_early": True,
    "debt": 0.25,
    "weight": 0.5,
    "mood": {"colour": "green", "since": "2024-05-06T00:00:00Z"},
}


def test_new_fields_of_a_node_pass_through_decoder_columns_and_renderer() -> None:
    columns = columns_of(Visitor, parse(msgspec.json.encode([VISITOR]), list[Visitor]))
    declared = pa.schema(columns_of_model(Visitor))
    table = pa.table([columns[name] for name in declared.names], schema=declared)
    assert table.column("shown_name").to_pylist() == ["Al"]
    (rendered,) = objects(Visitor, table)
    assert msgspec.json.decode(exact_json.encode(rendered)) == VISITOR


def test_a_missing_new_object_is_null_in_its_columns() -> None:
    bare = {name: value for name, value in VISITOR.items() if name not in ("mood", "steps")}
    columns = columns_of(Visitor, parse(msgspec.json.encode([VISITOR, bare]), list[Visitor]))
    assert columns["colour"].to_pylist() == ["green", None]
    assert columns["steps"].to_pylist() == [7, None]


@pytest.mark.parametrize(
    ("model", "table"),
    [(HolderNode, "map_nodes"), (GroupedTransfer, "grouped_transfers")],
    ids=["node", "relationship"],
)
def test_each_column_of_a_model_is_one_of_the_table(model: type[Model], table: str) -> None:
    names = {column.name for column in columns_of_model(model)}
    assert names <= set(TABLES[table].schema.names)
    assert {field.column for field in fields_of(model) if field.kind in ("flag", "address", "link end")} <= names
