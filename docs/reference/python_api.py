"""The reference page of the Python interface, from signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

import holderlake
import holderlake.dagster
from holderlake.core.ingest.stream import ChainInstant, Stream
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.presentation.dataframes import DataFrames

_HEAD: Final = """\
# The Python interface

These names are public: a later version changes them only with a note in the changelog. Everything else in `holderlake`
may change at any time. Raised errors are in `holderlake.errors`, see [below](#errors).
"""
_READ: Final = """
## Query warehouse and lake

[Connect your tools](connect.md#python-and-notebooks) has examples.
"""
_CLIENT: Final = """
## Call an API
"""
_DAGSTER: Final = """
## Build Dagster assets

All names are in `holderlake.dagster`. [Dagster](dagster.md#use-the-assets-in-a-project-of-your-own) has a complete
project. The streams of this application are in the modules of `holderlake.assets`, such as `HOLDERS` in
`holderlake.assets.holders`.
"""
_PARTS: Final = """
## Read parts of a home

`LakeResource.open()` and `WarehouseResource.open()` return these objects in an asset.
"""
_ERRORS: Final = """
## Errors

All are in `holderlake.errors`. `except` with a base also catches the error.

| error | bases | meaning |
|---|---|---|
"""
_METHODS: Final[dict[type, tuple[str, ...]]] = {
    DataFrames: ("pandas", "polars", "arrow"),
    holderlake.Client: ("get",),
    Lake: ("read", "manifests", "rows"),
    Warehouse: ("query", "connect", "load"),
    holderlake.dagster.LakeResource: ("open",),
    holderlake.dagster.WarehouseResource: ("open",),
    holderlake.dagster.WorkspaceResource: ("open",),
}
"""Public methods of each class that has some."""
_LONGEST_LINE: Final = 100


def python_page() -> str:
    """Return the page of all public functions, classes and errors."""
    factories = [getattr(holderlake.dagster, name) for name in holderlake.dagster.__all__]
    functions = [factory for factory in factories if not isinstance(factory, type)]
    classes = [factory for factory in factories if isinstance(factory, type)]
    return "".join(
        [
            _HEAD,
            _READ,
            *map(_entry, (holderlake.open_warehouse, holderlake.open_lake, DataFrames)),
            _CLIENT,
            _entry(holderlake.Client),
            _DAGSTER,
            *map(_entry, (*functions, *classes, Stream, ChainInstant)),
            _PARTS,
            *map(_entry, (Lake, Warehouse)),
            _ERRORS,
            *_errors(),
        ]
    )


def _entry(public: Any) -> str:
    """Return the section of a function or a class, with its public methods."""
    parts = [f"\n### {public.__name__}\n", _code(public, public.__name__), _text(public)]
    if isinstance(public, type) and issubclass(public, BaseModel):
        parts.append(_fields(public))
    for name in _METHODS.get(public, ()) if isinstance(public, type) else ():
        method = getattr(public, name)
        parts += [_code(method, f"{public.__name__}.{name}"), _text(method)]
    return "\n".join(parts)


def _code(public: Any, name: str) -> str:
    """Return the import and the signature as a block of code; a Pydantic model has a table of its fields instead."""
    lines = [] if "." in name else [f"from {_module(public)} import {name}"]
    if not (isinstance(public, type) and issubclass(public, BaseModel)):
        lines += ["", _signature(public, name)] if lines else [_signature(public, name)]
    return "\n".join(["```python", *lines, "```\n"])


def _signature(public: Any, name: str) -> str:
    """Return the signature as in the source. A dataclass has that of its fields."""
    source = ast.parse(inspect.cleandoc(f"\n{inspect.getsource(public)}")).body[0]
    returns = ""
    if isinstance(source, ast.FunctionDef):
        parameters, returns = _parameters(source), f" -> {ast.unparse(source.returns)}" if source.returns else ""
    elif is_dataclass(public):
        parameters = [ast.unparse(part) for part in source.body if isinstance(part, ast.AnnAssign)]
    else:
        parameters = _parameters(next(part for part in source.body if getattr(part, "name", "") == "__init__"))
    line = f"{name}({', '.join(parameters)}){returns}"
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{name}(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + f"){returns}"


def _parameters(function: ast.FunctionDef) -> list[str]:
    """Return the parameters with annotations and defaults, without ``self``."""
    given = function.args
    missing: list[ast.expr | None] = [None] * (len(given.args) - len(given.defaults))
    parameters = list(zip(given.args, [*missing, *given.defaults], strict=True))
    texts = [_parameter(*parameter) for parameter in parameters if parameter[0].arg != "self"]
    if given.kwonlyargs:
        texts += ["*", *map(_parameter, given.kwonlyargs, given.kw_defaults)]
    return [*texts, f"**{ast.unparse(given.kwarg)}"] if given.kwarg else texts


def _parameter(parameter: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(parameter) + (f" = {ast.unparse(default)}" if default else "")


def _module(public: Any) -> str:
    if public.__name__ in holderlake.__all__:
        return "holderlake"
    return "holderlake.dagster" if public.__name__ in holderlake.dagster.__all__ else str(public.__module__)


def _text(public: Any) -> str:
    """Return the docstring as Markdown, with lines about parameters as a list and indented lines as Python."""
    text = (inspect.getdoc(public) or "").replace("``", "`")
    text = re.sub(r"^(?=`[^`]+`: )", "- ", text, flags=re.MULTILINE)
    text = re.sub(r"(?<=\n\n)(?: {4}.*\n|\n(?= {4}))+", lambda block: _python(block[0]), text)
    return f"{text}\n"


def _python(text: str) -> str:
    return "```python\n" + inspect.cleandoc(f"\n{text}") + "\n```\n"


def _fields(model: type[BaseModel]) -> str:
    lines = [
        f"| `{name}` | {_default(field)} | {field.description or ''} |"
        for name, field in model.model_fields.items()
        if not name.endswith("__")
    ]
    return "\n".join(["| field | default | meaning |", "|---|---|---|", *lines]) + "\n"


def _default(field: FieldInfo) -> str:
    return "required" if field.is_required() else f"`{field.get_default(call_default_factory=True)!r}`"


def _errors() -> Iterator[str]:
    public = {name: getattr(holderlake.errors, name) for name in holderlake.errors.__all__}
    for name, error in public.items():
        bases = [base.__name__ for base in error.__mro__[1:] if base.__name__ in public]
        about = (inspect.getdoc(error) or "").split("\n\n")[0].replace("\n", " ").replace("``", "`")
        yield f"| `{name}` | {', '.join(f'`{base}`' for base in bases)} | {about} |\n"
