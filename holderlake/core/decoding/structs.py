"""Msgspec structs of the API's answers, made from the models of ``contract``: only the fields that tables need.

Exact numbers stay JSON text (``msgspec.Raw``) until their column is built, so that no number becomes a float. Addresses
and token of a relationship stay JSON text too. They repeat in most rows, and each distinct text is decoded once. A
field that is not essential may be absent or null; then it is null in the table.
"""

from __future__ import annotations

from functools import cache
from types import GenericAlias
from typing import Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import Raw
from pydantic import BaseModel

from holderlake.core.contract.fields import AnswerField, fields_of

NULL: Final = Raw(b"null")
RAW_KINDS: Final = frozenset({"amount", "figure", "link end", "link token", "scores"})
"""Kinds of fields that stay raw JSON text. A missing value is the text ``NULL``, not None."""
_TYPES: Final[dict[str, Any]] = {
    **dict.fromkeys(RAW_KINDS, Raw),
    "text": str,
    "address": str,
    "instant": str,
    "integer": int,
    "unix seconds": int,
    "flag": bool,
}


class Struct(msgspec.Struct, gc=False):
    """Base of all structs. Structs form no reference cycles, so ``gc=False`` keeps them out of garbage collection."""


class UnknownTransfer(Struct):
    """A relationship of a type that this version does not know. ``unknown_data`` is its ``data`` as JSON text."""

    from_address: Raw
    to_address: Raw
    data: Any
    rel_type: str
    unknown_data: str


@cache
def stored_fields(model: type[BaseModel]) -> tuple[AnswerField, ...]:
    """Return the fields of a model that tables need: those with a column or a row of their own."""
    return tuple(field for field in fields_of(model) if field.column and field.kind != "raw amount")


@cache
def struct_of(model: type[BaseModel]) -> type[msgspec.Struct]:
    """Return the struct with the stored fields of a model. A field that had another name has a member for each name."""
    members = [
        (name, *_member(field))
        for field in stored_fields(model)
        for name in (field.names[:1] if field.is_essential else field.names)
    ]
    return msgspec.defstruct(model.__name__, members, bases=(Struct,), gc=False, kw_only=True)


def shape_of(answer: Any) -> Any:
    """Return the type of a decoded answer, from a model or a list of models."""
    is_list = get_origin(answer) is list
    return GenericAlias(list, (struct_of(*get_args(answer)),)) if is_list else struct_of(answer)


@cache
def empty(model: type[BaseModel]) -> Any:
    """Return a struct whose fields are all null."""
    fields = stored_fields(model)
    return struct_of(model)(**{field.name: NULL if field.kind in RAW_KINDS else None for field in fields})


def _member(field: AnswerField) -> tuple[Any, ...]:
    """Return the type of a struct's member, and its default unless the field is essential."""
    if field.kind == "constant":
        return Literal[field.default], field.default
    if field.kind == "list":
        return GenericAlias(list, (_element(field),)) | None, None
    bare = _element(field) if field.kind == "object" else _TYPES[field.kind]
    if field.is_essential:
        return (bare,)
    return (bare, NULL) if bare is Raw else (bare | None, field.default)


def _element(field: AnswerField) -> Any:
    return str if field.model is None else struct_of(field.model)
