"""Structs have the fields of the contract's models, no more and no fewer, and take nothing that a model refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_args

import msgspec
import pytest
from msgspec.structs import fields
from pydantic import AfterValidator, BaseModel, Field

from contract import models
from contract.models import AddressMetadata, Holder, Map, Relationship
from resources.shapes import RESHAPED, decoder, read
from tests.contract.answers import ALICE, holder

SHAPES = [Map, list[Holder], list[Relationship], list[AddressMetadata]]


def structs_of(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """Every struct that a type holds."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        for field in fields(kind):
            yield from structs_of(field.type)
    for part in get_args(kind):
        yield from structs_of(part)


@pytest.mark.parametrize("shape", SHAPES, ids=["map", "holders", "relationships", "addresses"])
@pytest.mark.parametrize("closed", [True, False])
def test_a_struct_has_the_fields_of_its_model_and_may_lack_at_most_what_the_model_may(shape: Any, closed: bool) -> None:
    found = list(structs_of(decoder(shape, closed=closed).type))
    assert found
    for struct in found:
        model: type[BaseModel] = getattr(models, struct.__name__)
        assert [field.name for field in fields(struct)] == list(model.model_fields)
        for field in fields(struct):
            info = model.model_fields[field.name]
            assert field.required >= info.is_required()
            if not field.required:
                default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
                assert default == info.get_default(call_default_factory=True)


def test_the_models_that_look_elsewhere_for_what_they_lack_are_known() -> None:
    reached = {
        getattr(models, struct.__name__) for shape in SHAPES for struct in structs_of(decoder(shape, closed=True).type)
    }
    checking = {model for model in reached if model.__pydantic_decorators__.model_validators}
    assert checking == set(RESHAPED)
    assert not any(model.__pydantic_decorators__.field_validators for model in reached)


def test_only_an_open_decoder_takes_fields_that_nobody_knows() -> None:
    raw = msgspec.json.encode([holder(ALICE, 1, weather="fine")])
    with pytest.raises(msgspec.ValidationError, match="weather"):
        decoder(list[Holder], closed=True).decode(raw)
    assert read(raw, list[Holder])[0].holder_data.rank == 1


def test_fields_that_nobody_knows_must_be_json_all_the_same() -> None:
    raw = msgspec.json.encode([holder(ALICE, 1, weather="fine")]).replace(b"fine", b"\xff")
    assert decoder(list[Holder], closed=False).decode(raw)
    with pytest.raises(ValueError, match="not JSON"):
        read(raw, list[Holder])


class Checked(BaseModel):
    name: Annotated[str, AfterValidator(str.upper)]


class Small(BaseModel):
    size: int = Field(le=3)


class Short(BaseModel):
    name: str | None = Field(max_length=3)


class Painted(BaseModel):
    colours: set[str]


@pytest.mark.parametrize("model", [Checked, Small, Short, Painted])
def test_a_rule_that_no_struct_follows_is_told_before_any_answer_is_read(model: type[BaseModel]) -> None:
    with pytest.raises(TypeError):
        decoder(model, closed=True)
