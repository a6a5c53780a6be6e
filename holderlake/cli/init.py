"""``holderlake init``: write a commented ``holderlake.toml``, from options or from a few questions."""

from __future__ import annotations

import json as jsons
import os
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_origin

import typer

from holderlake.cli import shared
from holderlake.cli.shared import EXPLORE, Json
from holderlake.core.contract.chains import chain_typed
from holderlake.core.contract.times import from_unix
from holderlake.presentation import console

if TYPE_CHECKING:
    from holderlake.core.settings.declared import Setting

_SECOND_HOME: Final = "my-lake"
"""The home that is proposed where the default one has a lake already, because a lake belongs to one provider."""
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


def init(
    provider: Annotated[
        str | None, typer.Option("--provider", metavar="URL", help="Base address of the provider's API.")
    ] = None,
    own_data: Annotated[
        bool, typer.Option("--own-data", help="Compute maps from your own imports, without a provider.")
    ] = False,
    chain: Annotated[
        list[str] | None, typer.Option("--chain", help="A chain with tokens to watch; may be given again.")
    ] = None,
    token: Annotated[
        list[str] | None, typer.Option("--token", help="A token to watch: address, or 'native'; may be given again.")
    ] = None,
    per_month: Annotated[
        str | None, typer.Option("--per-month", metavar="CREDITS", help="Maximum credits of a month.")
    ] = None,
    home: Annotated[Path | None, typer.Option("--home", help="Folder of everything that runs write.")] = None,
    json: Json = False,
) -> None:
    """Write a commented holderlake.toml for a provider, or for your own transfers, and show the next commands.

    In a terminal, without options, it asks. It never replaces a file.

    Example: holderlake init --provider https://api.example.com --chain eth --token native --per-month 5000

    Example: holderlake init --own-data --chain eth --token 0x6ba6f2207e343923ba692e5cae646fb0f566db8d
    """
    from holderlake.core.settings import CONFIG_NAME, CONFIG_VARIABLE

    path = Path(os.environ.get(CONFIG_VARIABLE) or CONFIG_NAME).expanduser()
    if path.exists():
        raise ValueError(f"{path} exists already; edit it, or remove it first")
    if provider and own_data:
        raise ValueError("--provider and --own-data exclude each other; use one of them")
    if bool(chain) != bool(token):
        raise ValueError("--chain and --token name the tokens to watch together; give both or none")
    given_values = {
        "provider.url": provider,
        "provider.local": "store" if own_data else None,
        "watchlist": shared.watched_tokens(chain or (), token or ()),
        "budget.per_month": per_month,
        "home": home,
    }
    if not any(given_values.values()) and sys.stdin.isatty():
        given_values = _answers()
    values = {name: value for name, value in given_values.items() if value}
    values |= _free_home(values)
    _check(values)
    with path.open("x", encoding="utf-8") as file:
        file.write(settings_file(values))
    commands = _next_commands(values)
    if json:
        console.as_json({"file": str(path), "next": commands})
        return
    console.out.print(f"Wrote {path}. Next:")
    for command in commands:
        console.out.print(f"  {command}", soft_wrap=True)


def _answers() -> dict[str, Any]:
    """Ask for what a newcomer decides, and return the values by the settings' names."""
    from holderlake.core.contract.chains.addresses import typed_token

    values: dict[str, Any] = {}
    source = _answer("Where do holders and maps come from (provider, own or sample)", _source)
    if source == "own":
        values["provider.local"] = "store"
    if source == "provider":
        values["provider.url"] = _answer("Base address of its API", lambda text: _checked("provider.url", text))
        values["budget.per_month"] = _answer(
            "Maximum credits a month, or Enter for no limit",
            lambda text: text and _checked("budget.per_month", text),
        )
    if source != "sample":
        chain = _answer(
            "Chain of a token to watch, or Enter to name tokens later", lambda text: text and chain_typed(text)
        )
        if chain:
            token = _answer("Address of the token, or native", lambda text: typed_token(chain, text))
            values["watchlist"] = {chain: [token]}
    return values


def _source(text: str) -> str:
    if text not in ("provider", "own", "sample"):
        raise ValueError(f"{text!r} is none of them; write provider, own or sample")
    return text


def _answer(question: str, read: Callable[[str], Any]) -> Any:
    """Ask until ``read`` accepts the answer, and return its result."""

    def check(text: str) -> Any:
        try:
            return read(text.strip())
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return typer.prompt(question, default="", show_default=False, value_proc=check, err=True)


def _checked(name: str, value: Any) -> Any:
    """Return the value of a setting. Raises ``ValueError`` if the settings refuse it."""
    _check({name: value})
    return value


def _check(values: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if the settings refuse a value."""
    from pydantic import ValidationError

    from holderlake.core.settings import Settings

    nested: dict[str, Any] = {}
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        (nested.setdefault(section, {}) if section else nested)[key] = value
    try:
        Settings(**nested)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, fault['loc']))}: {fault['msg'].removeprefix('Value error, ')}") from error


def _free_home(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return another home if the default one has a lake already. Own transfers stay in the default one's store."""
    from holderlake.core.settings import Settings
    from holderlake.engine.settings import store_folder

    default = Settings()
    if "home" in values or os.environ.get("HOLDERLAKE_HOME") or not default.lake_folder.exists():
        return {}
    has_store = "provider.local" in values and store_folder(default).exists()
    return {"home": _SECOND_HOME} | ({"engine.store": store_folder(default)} if has_store else {})


def _next_commands(values: Mapping[str, Any]) -> list[str]:
    """Return the commands that lead from the new file to a first map."""
    from holderlake.engine.settings import store_folder

    watched = values.get("watchlist") or ("provider.url" not in values and "provider.local" not in values)
    commands = ["holderlake ingest" if watched else "holderlake ingest --chain CHAIN --token TOKEN", EXPLORE]
    if "provider.url" in values:
        has_key = os.environ.get("HOLDERLAKE_API_KEY") or os.environ.get("HOLDERLAKE_API_KEY_FILE")
        return [*([] if has_key else ["export HOLDERLAKE_API_KEY=…"]), "holderlake doctor", *commands]
    if "provider.local" in values:
        folder = store_folder(shared.settings())
        if not folder.exists():
            return ["holderlake import files transfers.csv", *commands]
        if (last_time := _last_time(folder, values.get("watchlist", {}))) is not None:
            return [f"{commands[0]} --at {from_unix(last_time):%Y-%m-%dT%H:%M:%SZ}  # the last transfer", *commands[1:]]
    return commands


def _last_time(store: Path, watchlist: Mapping[str, Sequence[str]]) -> int | None:
    """Return the unix second of the last stored transfer of the watched tokens; None if there is none."""
    from holderlake.engine.store.store import Store

    with Store(store) as opened:
        histories = (opened.history(chain, token) for chain, tokens in watchlist.items() for token in tokens)
        return max((history.last_time for history in histories if history), default=None)


def settings_file(values: Mapping[str, Any]) -> str:
    """Return the text of a settings file: the common settings, each with its meaning.

    ``values`` has the chosen values by the names of the settings. The others are comments with their defaults, or with
    an example if there is no default.
    """
    from holderlake.core.settings.declared import declared_settings, is_environment_only

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
        return jsons.dumps(duration_text(value))
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return jsons.dumps(value if isinstance(value, bool | int | float) else str(value), ensure_ascii=False)


def _comment(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False) + "\n"
