"""The fields of the models of answers, as decoder, renderer and tables need them.

``models`` declares each answer once. ``fields_of`` reads a field's kind from its type, the name of
its column from the field's name, and the comment of the column from the field's description. The marks ``Kind``,
``Column`` and ``ESSENTIAL`` in ``Annotated`` say what the type does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import AliasChoices, BaseModel


class Kind(str):
    """Mark: the kind of a field, where the type does not give it."""


class Column(str):
    """Mark: the name of a field's column, where it is not the field's name; the empty text for none."""


class _Essential:
    """Type of the mark ``ESSENTIAL``."""


ESSENTIAL: Final = _Essential()
"""Mark: an element of a list is left out, and an answer refused, if it lacks this field."""
_KINDS: Final[dict[Any, str]] = {
    str: "text",
    int: "integer",
    float: "figure",
    Decimal: "amount",
    bool: "flag",
    datetime: "instant",
}


@dataclass(frozen=True)
class AnswerField:
    """A field of a model. ``names`` has its name in JSON, then older names.

    ``kind`` is "text", "integer", "figure", "amount", "flag", "instant", "constant", "object" or "list", or the text of
    a mark ``Kind``. ``column`` is the name of its column, empty for none. ``model`` is the model of an object or of the
    elements of a list; None for a list of addresses. ``is_required`` is true if the contract promises the field.
    """

    names: tuple[str, ...]
    kind: str
    column: str
    comment: str
    is_essential: bool
    is_required: bool
    default: Any
    model: type[BaseModel] | None

    @cached_property
    def name(self) -> str:
        """The field's name in JSON."""
        return self.names[0]


@cache
def fields_of(model: type[BaseModel]) -> tuple[AnswerField, ...]:
    """Return the fields of a model, in the order of their declaration."""
    hints = get_type_hints(model, include_extras=True)
    return tuple(_field(model, name, hints[name]) for name in model.model_fields)


def _field(model: type[BaseModel], name: str, hint: Any) -> AnswerField:
    info = model.model_fields[name]
    bare, marks = _unwrapped(hint)
    origin, element = get_origin(bare), bare
    if origin is list:
        element, _ = _unwrapped(get_args(bare)[0])
    is_object = isinstance(element, type) and issubclass(element, BaseModel)
    kind = "list" if origin is list else "object" if is_object else _KINDS.get(bare, "text")
    if origin is Literal and len(get_args(bare)) == 1:
        kind = "constant"
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    alias = info.validation_alias
    names = [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else [name]
    return AnswerField(
        names=tuple(names),
        kind=next((str(mark) for mark in marks if isinstance(mark, Kind)), kind),
        column=next((str(mark) for mark in marks if isinstance(mark, Column)), name),
        comment=info.description or "",
        is_essential=ESSENTIAL in marks,
        is_required=info.is_required(),
        default=None if origin is list else default,
        model=element if is_object else None,
    )


def _unwrapped(hint: Any) -> tuple[Any, Sequence[Any]]:
    """Return a type without ``Annotated`` and null, and all marks within it. Of a union, its first type is taken."""
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        bare, inner_marks = _unwrapped(inner)
        return bare, [*marks, *inner_marks]
    if get_origin(hint) in (Union, UnionType):
        return _unwrapped(next(part for part in get_args(hint) if part is not NoneType))
    return hint, []
