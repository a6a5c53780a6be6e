"""The declared settings as a list, and a commented ``holderlake.toml`` made from them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from holderlake.core.settings.model import Settings

COMMON: Final = (
    "home",
    "api_key",
    "provider.url",
    "provider.local",
    "watchlist",
    "maps.limit",
    "holders.limit",
    "budget.per_month",
    "budget.renewal_day",
    "schedule.cron",
    "schedule.offsets",
    "schedule.start",
    "alerts.webhook",
    "service.public_url",
    "sources.rpc.<name>.endpoints",
)
"""The settings that most people set, in the order of the reference page."""
_WIDTH: Final = 100
"""Letters in a line of comments."""


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


def settings_file(values: Mapping[str, Any]) -> str:
    """Return the text of a settings file: the common settings, each with its meaning.

    ``values`` has the chosen values by the names of the settings. The others are comments with their defaults, or with
    an example if there is no default.
    """
    declared = {setting.name: setting for setting in declared_settings()}
    names = [name for name in dict.fromkeys((*COMMON, *values)) if not is_environment_only(name)]
    secrets = [declared[name] for name in COMMON if is_environment_only(name)]
    text = _comment("Settings of Holderlake. 'holderlake doctor' checks them.")
    text += _comment("Lines that begin with # are defaults or examples.")
    text += _comment("Secrets are in the environment only:")
    text += "".join(_comment(f"{setting.variable}: {_meaning(setting)}") for setting in secrets)
    tables: dict[tuple[str, ...], str] = {(): ""}
    for setting in (declared[name] for name in names):
        table = setting.path if get_origin(setting.field.annotation) is dict else setting.path[:-1]
        tables.setdefault(table, f"\n[{'.'.join(table)}]\n")
        tables[table] += f"\n{_comment(_meaning(setting))}{_lines(setting, values)}"
    return text + "".join(tables.values())


def _meaning(setting: Setting) -> str:
    return (setting.field.description or "").removesuffix("; environment only")


def _lines(setting: Setting, values: Mapping[str, Any]) -> str:
    value, prefix = values.get(setting.name), ""
    if value is None:
        default, prefix = setting.field.default, "# "
        value = default if default not in (None, {}) else (setting.field.examples or [""])[0]
    pairs = value.items() if isinstance(value, Mapping) else [(setting.path[-1], value)]
    return "".join(f"{prefix}{name} = {_toml(part)}\n" for name, part in pairs)


def duration_text(duration: timedelta) -> str:
    """Return a duration as settings spell it: ``7d``, or ``06:30`` if it is not of whole days."""
    if duration and not duration % timedelta(days=1):
        return f"{duration.days}d"
    return f"{duration // timedelta(hours=1):02}:{duration // timedelta(minutes=1) % 60:02}"


def _toml(value: Any) -> str:
    if isinstance(value, timedelta):
        return json.dumps(duration_text(value))
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value if isinstance(value, bool | int | float) else str(value), ensure_ascii=False)


def _comment(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False) + "\n"
