"""Read the settings from a file and the environment, and report each fault with its key, variable or file.

The file is ``holderlake.toml`` in the current directory, or the one that ``HOLDERLAKE_CONFIG`` names. Paths in it are
relative to its folder; other paths are relative to the current directory. Two underscores in a variable separate
section and key: ``HOLDERLAKE_PROVIDER__URL``. A variable replaces the file's complete value, also a list or a table.

Secrets come from the environment, or from a file that it names, and never from ``holderlake.toml``, because people
commit it.
"""

from __future__ import annotations

import copy
import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource

from holderlake.core.setting_types import SettingsError
from holderlake.core.settings.declared import is_environment_only, paths
from holderlake.core.settings.model import Settings

CONFIG_VARIABLE: Final = "HOLDERLAKE_CONFIG"
CONFIG_NAME: Final = "holderlake.toml"
_PSEUDO: Final = ("/proc", "/sys", "/dev")
"""Folders of the kernel, which keep no files of users. ``/dev/shm`` is an exception: a disk in memory."""


def load_settings(path: Path | None = None) -> Settings:
    """Return the settings of a file and the environment. Raises ``SettingsError``, which names every fault.

    The file is ``path``, else the one that ``HOLDERLAKE_CONFIG`` names, else ``holderlake.toml`` if it exists.
    """
    path, from_file = _read_file(path)
    try:
        from_environment = EnvSettingsSource(Settings)()
    except ValueError as error:
        field = re.search(r'field "(\w+)"', str(error))
        raise SettingsError(
            f"{_variable(field.groups()) if field else 'an environment variable'}: the value is not JSON; write a list "
            """as ["a", "b"] and a table as {"eth": ["0x…"]}"""
        ) from error
    faults = _unknown_variables()
    try:
        settings = Settings(**_merge(_without_replaced(from_file, from_environment), from_environment))
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False, include_context=False)
        faults += [_sentence(fault, path, from_environment) for fault in details]
    if faults:
        raise SettingsError("; ".join(faults)) from None
    _check_home(settings.home)
    return settings


def _check_home(home: Path) -> None:
    """Raise ``SettingsError`` if the home cannot be a folder that keeps files."""
    for path in (home, *home.absolute().parents):
        if path.exists() and not path.is_dir():
            raise SettingsError(f"HOLDERLAKE_HOME is {home}, but {path} is a file; set it to a folder")
    place = home.resolve()
    for pseudo in _PSEUDO:
        if place.is_relative_to(pseudo) and not place.is_relative_to("/dev/shm"):  # noqa: S108 - no file is made here
            raise SettingsError(
                f"HOLDERLAKE_HOME is {home}, but {pseudo} is a file system of the kernel, which keeps no files; set it "
                "to a folder on a disk"
            )


def _unknown_variables() -> list[str]:
    """Return one error sentence for each ``HOLDERLAKE_…`` variable whose section does not exist."""
    prefix = str(Settings.model_config["env_prefix"])
    delimiter = str(Settings.model_config["env_nested_delimiter"])
    faults = []
    for name in sorted(os.environ):
        section, nested, _ = name.removeprefix(prefix).partition(delimiter)
        if name.startswith(prefix) and nested and section.lower() not in Settings.model_fields:
            near = difflib.get_close_matches(section.lower(), Settings.model_fields, 1, 0.5)
            advice = f"did you mean {prefix}{near[0].upper()}{name[len(prefix + section) :]}?" if near else "remove it"
            faults.append(f"{name}: there is no section {section.lower()}; {advice}")
    return faults


def _read_file(given_path: Path | None) -> tuple[Path, dict[str, Any]]:
    named_path = given_path or os.environ.get(CONFIG_VARIABLE)
    path = Path(named_path or CONFIG_NAME).expanduser()
    try:
        # decimals, because credits are exact
        values = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except FileNotFoundError as error:
        if named_path:
            raise SettingsError(
                f"there is no settings file {path}: create it, or set {CONFIG_VARIABLE} to the path of another one"
            ) from error
        return path, {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{path} can't be read ({error}); correct the file") from error
    for key in _keys(values):
        if is_environment_only(".".join(key)):
            raise SettingsError(
                f"{'.'.join(key)} does not belong in {path}, because people share that file: remove it there, and set "
                f"{_variable(key)} in the environment"
            )
    return path, _resolve_paths(path.parent, values)


def _keys(values: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every key in nested settings, for example ``("provider", "url")``."""
    for name, value in values.items():
        yield (*above, name)
        if isinstance(value, Mapping):
            yield from _keys(value, (*above, name))


def _resolve_paths(folder: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a settings file, with relative paths resolved against the file's folder."""
    resolved = dict(values)
    for name, value in values.items():
        if isinstance(value, Mapping):
            resolved[name] = _resolve_paths(folder, value)
        elif name in paths() and isinstance(value, str):
            resolved[name] = folder / Path(value).expanduser()
    return resolved


def _without_replaced(from_file: Mapping[str, Any], from_environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the file's values without the tables that a variable sets as a whole, in JSON.

    ``HOLDERLAKE_WATCHLIST`` replaces the file's table; ``HOLDERLAKE_WATCHLIST__ETH`` replaces one of its lists.
    """
    file_values = copy.deepcopy(dict(from_file))
    prefix = str(Settings.model_config["env_prefix"])
    for variable, text in os.environ.items():
        if not variable.upper().startswith(prefix) or not text.lstrip().startswith("{"):
            continue
        *section, name = variable[len(prefix) :].lower().split(str(Settings.model_config["env_nested_delimiter"]))
        if _is_in(from_environment, (*section, name)):
            inner: Any = file_values
            for part in section:
                inner = inner.get(part) if isinstance(inner, dict) else None
            if isinstance(inner, dict):
                inner.pop(name, None)
    return file_values


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two nested settings section by section. Values in ``above`` override those in ``below``."""
    values = dict(below)
    for name, value in above.items():
        value_below = below.get(name)
        values[name] = (
            _merge(value_below, value) if isinstance(value, Mapping) and isinstance(value_below, Mapping) else value
        )
    return values


def _sentence(fault: ErrorDetails, path: Path, from_environment: Mapping[str, Any]) -> str:
    key = fault["loc"]
    text = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        text = _unknown_key(key)
    elif fault["type"] == "string_pattern_mismatch" and (description := _description(key)):
        text = f"the value has another form than expected: {description}"
    if not key:
        return text
    place = _variable(key) if _is_in(from_environment, key) else f"{path}: {'.'.join(map(str, key))}"
    return f"{place}: {text}"


def _variable(key: Sequence[int | str]) -> str:
    """Return the name of the environment variable of a setting."""
    return "HOLDERLAKE_" + "__".join(part for part in key if isinstance(part, str)).upper()


def _unknown_key(key: Sequence[int | str]) -> str:
    """Return an error sentence that proposes the most similar key, or lists all keys of the section."""
    *section, name = key
    names = list(_fields_of(section))
    near = difflib.get_close_matches(str(name), names, 1, 0.5)
    advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    return f"there is no such setting; {advice}"


def _description(key: Sequence[int | str]) -> str | None:
    """Return the description of a setting, None for an entry of a table or list."""
    *section, name = key
    try:
        field = _fields_of(section).get(str(name))
    except StopIteration:  # in a table or list whose names or places are the user's own
        return None
    return field.description if field else None


def _fields_of(section: Sequence[int | str]) -> Mapping[str, FieldInfo]:
    """Return the fields of a section."""
    model: type[BaseModel] = Settings
    for part in section:
        field = model.model_fields.get(str(part))
        if field is None:  # a name that the user chose, of an address set for example
            continue
        candidates = [field.annotation, *get_args(field.annotation)]
        model = next(
            candidate for candidate in candidates if isinstance(candidate, type) and issubclass(candidate, BaseModel)
        )
    return model.model_fields


def _is_in(values: Any, key: Sequence[int | str]) -> bool:
    for part in key:
        if not isinstance(values, Mapping):
            return True  # inside a list or text that one variable sets
        if part not in values:
            return False
        values = values[part]
    return True
