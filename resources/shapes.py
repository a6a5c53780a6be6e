"""The contract's models as msgspec structs: the same fields, and bytes become objects without dicts in between.

A struct takes less than its model, never more: it converts nothing, and knows neither older shapes, other names of a
field nor unknown relationships. Where only the model can tell whether a text will do (chain ids, addresses,
instants), or msgspec would round (numbers), the text is kept, and whoever needs the field asks the model. So is what
says the same in row after row (who sent, who received, which token): it is read once for all that say it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo

from contract import wire
from contract.models import (
    Address,
    Amount,
    ChainId,
    GroupedTransfer,
    GroupedTransferData,
    Instant,
    Map,
    Measured,
    Number,
    RawAmount,
    Relationship,
    Scores,
    Share,
)

RESHAPED: Final = (Map, Scores)
"""Models that look elsewhere in an answer for what they lack; here they may lack nothing."""

_DIGITS: Final = get_args(RawAmount)[1].pattern.replace("$", r"\Z")  # Python's $ lets a line end pass
_READ_AS: Final[tuple[tuple[Any, Any], ...]] = (
    (Amount, msgspec.Raw),
    (Number, msgspec.Raw),
    (Measured, msgspec.Raw),
    (Share, msgspec.Raw),
    (ChainId, str),
    (Address, str),
    (Instant, str),
    (RawAmount, Annotated[str, msgspec.Meta(pattern=_DIGITS)]),
)
_READ_LATER: Final[dict[type[BaseModel], tuple[str, ...]]] = {
    GroupedTransfer: ("from_address", "to_address"),
    GroupedTransferData: ("token_key",),
}
"""Fields that hold the same few texts in many rows; see ``links``."""
_AS_THEY_ARE: Final = (str, int, bool, type(None))

Structs = Callable[[type[BaseModel]], type[msgspec.Struct]]


def read(raw: bytes, shape: Any) -> Any:
    """The structs of an answer of ``shape`` (a model or a list of models).

    Raises ``msgspec.DecodeError`` or ``ValueError`` where the bytes are not of the current shape, or no JSON.
    """
    try:
        return decoder(shape, closed=True).decode(raw)
    except msgspec.ValidationError:
        wire.decode(raw, Any)  # what stands in fields that nobody knows is skipped below, but must be JSON too
        return decoder(shape, closed=False).decode(raw)


@cache
def decoder(shape: Any, *, closed: bool) -> msgspec.json.Decoder[Any]:
    """A decoder of ``shape``. A ``closed`` one refuses fields that the contract does not know."""

    @cache
    def struct(model: type[BaseModel]) -> type[msgspec.Struct]:
        hints = get_type_hints(model, include_extras=True)
        fields = [(name, *_field(model, name, hints[name], info, struct)) for name, info in model.model_fields.items()]
        return msgspec.defstruct(model.__name__, fields, kw_only=True, gc=False, forbid_unknown_fields=closed)

    return msgspec.json.Decoder(_kind(shape, struct))


def _field(model: type[BaseModel], name: str, hint: Any, info: FieldInfo, struct: Structs) -> tuple[Any, ...]:
    """The type and, where it may be left out, the default of a field."""
    kind = msgspec.Raw if name in _READ_LATER.get(model, ()) else _kind(hint, struct)
    if info.metadata and get_origin(hint) is not Annotated:
        kind = _bounded(kind, info.metadata)
    if info.is_required() or info.validation_alias is not None or model in RESHAPED:
        return (kind,)
    return kind, msgspec.field(default_factory=list) if info.default_factory is list else info.get_default()


def _bounded(kind: Any, bounds: Sequence[Any]) -> Any:
    """An integer not below a bound. Raises ``TypeError`` on any other rule of a model's field."""
    if kind is not int or not all(hasattr(bound, "ge") for bound in bounds):
        raise TypeError(f"no struct follows the rules {bounds}")
    return Annotated[int, msgspec.Meta(ge=max(bound.ge for bound in bounds))]


def _kind(hint: Any, struct: Structs) -> Any:
    """What a field of a struct is where the model's is ``hint``. Raises ``TypeError`` on what nobody thought of."""
    for known, kind in _READ_AS:
        if hint == known:
            return kind
    if hint == Relationship:
        return struct(GroupedTransfer)
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return struct(hint)
    if hint in _AS_THEY_ARE or get_origin(hint) is Literal:
        return hint
    return _composed(hint, struct)


def _composed(hint: Any, struct: Structs) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated and all(isinstance(part, WithJsonSchema) for part in parts[1:]):
        return _kind(parts[0], struct)
    kinds = tuple(_kind(part, struct) for part in parts) if origin in (list, Union, UnionType) else ()
    if not kinds:
        raise TypeError(f"no field of a struct is known for {hint}")
    if origin is list:
        return list[kinds]  # type: ignore[valid-type]
    return msgspec.Raw if msgspec.Raw in kinds else Union[kinds]  # noqa: UP007
