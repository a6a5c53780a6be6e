"""The declared settings as a list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from holderlake.core.settings.model import Settings


@dataclass(frozen=True)
class Setting:
    """A setting: the names on the way to it, and its field. ``<name>`` is a name of the user's own."""

    path: tuple[str, ...]
    field: FieldInfo

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        return "HOLDERLAKE_" + "__".join(self.path).upper()


def is_environment_only(name: str) -> bool:
    """Return whether a setting never comes from the settings file: a secret, or the file of the API key."""
    return any(fnmatchcase(name, pattern) for pattern in ("api_key_file", *_secrets()))


@cache
def paths() -> frozenset[str]:
    """Return the keys whose values are paths, in any section."""
    return frozenset(setting.path[-1] for setting in declared_settings() if _has(setting.field.annotation, Path))


@cache
def _secrets() -> frozenset[str]:
    """Return the patterns of the names of secrets, with ``*`` for names of the user's own."""
    secrets = (setting for setting in declared_settings() if _has(setting.field.annotation, SecretStr))
    return frozenset(setting.name.replace("<name>", "*") for setting in secrets)


def _has(annotation: Any, kind: type) -> bool:
    return annotation is kind or any(_has(part, kind) for part in get_args(annotation))


def declared_settings(model: type[BaseModel] = Settings, path: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Yield each setting of a section and of the sections in it."""
    for name, field in model.model_fields.items():
        if not is_section(field.annotation):
            yield Setting((*path, name), field)
        for inner, below in sections_below(model, (*path, name)):
            yield from declared_settings(inner, below)


def sections_below(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[tuple[type[BaseModel], tuple[str, ...]]]:
    """Yield the sections that the last field of ``path`` holds, with their paths."""
    annotation = model.model_fields[path[-1]].annotation
    if is_section(annotation) and isinstance(annotation, type):
        yield annotation, path
    for inner in filter(is_section, get_args(annotation)):  # optional, or under names of the user's own
        yield inner, (*path, "<name>") if get_origin(annotation) is dict else path


def is_section(annotation: Any) -> bool:
    """Return whether a field is a section with settings of its own."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
