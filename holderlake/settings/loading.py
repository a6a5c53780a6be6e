"""What a user may choose: one file ``holderlake.toml``, and environment variables ``HOLDERLAKE_…`` over it.

The file is looked for in the current directory, or where ``HOLDERLAKE_CONFIG`` says; paths in it are relative to it,
other paths to the current directory. A double underscore leads into a section: ``HOLDERLAKE_PROVIDER__URL``. The API
key comes from the environment, or from a file that it names, never from ``holderlake.toml``, which people commit; so do
the secrets of the service. Addresses of nodes may hold keys too: they come from the environment or a file of their own.

What an address or a chain id is stands in the contract; what the settings do, with those who read them.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel, Field, SecretStr, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from holderlake.settings.alerts import AlertSettings
from holderlake.settings.sections import (
    AddressSet,
    AddressSettings,
    BucketSettings,
    Budget,
    ClusterSettings,
    EngineSettings,
    Folder,
    HolderSettings,
    MapSettings,
    NodeSettings,
    ProviderSettings,
    Schedule,
    ServiceSettings,
    SourceSettings,
    TypedTokens,
)

__all__ = ["CONFIG_NAME", "CONFIG_VARIABLE", "AddressSet", "Settings", "SettingsError", "load_settings"]

CONFIG_VARIABLE: Final = "HOLDERLAKE_CONFIG"
CONFIG_NAME: Final = "holderlake.toml"
_KEY_ADVICE: Final = (
    "set HOLDERLAKE_API_KEY in the environment, or HOLDERLAKE_API_KEY_FILE to a file that holds nothing but the key"
)
_SECRETS: Final = {"service": {"database", "secret"}, "alerts": {"webhook", "secret"}}
"""Settings of the environment only, by section."""


class SettingsError(Exception):
    """The settings can't be used; the message names the key or the file, and the way out."""


class Settings(BaseSettings):
    """All settings. ``load_settings`` reads them; made directly, they are what is given and nothing else."""

    model_config = SettingsConfigDict(
        env_prefix="HOLDERLAKE_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    home: Folder = Field(default=Path("data"), description="Folder of all that runs produce")
    api_key: SecretStr | None = Field(default=None, description="The provider's API key; environment only")
    api_key_file: Folder | None = Field(default=None, description="A file that holds the API key; environment only")
    http_transport: Literal["aiohttp", "httpx"] = Field(
        default="aiohttp", description="Transport of HTTP calls: aiohttp, or httpx for its own, which takes more CPU"
    )
    provider: ProviderSettings = ProviderSettings()
    watchlist: TypedTokens = Field(default={}, description="Token addresses (or native) by chain")
    address_sets: dict[str, AddressSet] = Field(default={}, description="Named address sets")
    budget: Budget = Budget()
    schedule: Schedule = Schedule()
    maps: MapSettings = MapSettings()
    holders: HolderSettings = HolderSettings()
    addresses: AddressSettings = AddressSettings()
    engine: EngineSettings = EngineSettings()
    cluster: ClusterSettings = ClusterSettings()
    bucket: BucketSettings = BucketSettings()
    sources: SourceSettings = SourceSettings()
    service: ServiceSettings = ServiceSettings()
    alerts: AlertSettings = AlertSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What is given, and nothing else: ``load_settings`` looks into file and environment."""
        return (init_settings,)

    @model_validator(mode="after")
    def _one_key(self) -> Settings:
        if self.api_key is not None and self.api_key_file is not None:
            raise ValueError("api_key and api_key_file are both set; which one is meant can't be known")
        return self

    @property
    def lake(self) -> Path:
        return self.home / "lake"

    @property
    def warehouse(self) -> Path:
        return self.home / "warehouse.duckdb"

    @property
    def ledger(self) -> Path:
        return self.home / "ledger.sqlite"

    @property
    def archive(self) -> Path:
        return self.home / "archive"

    @property
    def alerts_book(self) -> Path:
        return self.home / "alerts.sqlite"

    @property
    def dagster_home(self) -> Path:
        return self.home / "dagster"

    @property
    def engine_store(self) -> Path:
        return self.engine.store or self.home / "engine"

    @property
    def cluster_folder(self) -> str:
        return self.cluster.folder or str((self.home / "cluster").resolve())

    @property
    def service_accounts(self) -> Path:
        return self.home / "service" / "accounts.sqlite"

    def key(self) -> SecretStr | None:
        """The API key, read from its file where one is named. Raises ``SettingsError`` on a file without a key."""
        if self.api_key_file is None:
            return self.api_key
        try:
            text = self.api_key_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"the API key file {self.api_key_file} can't be read; {_KEY_ADVICE}") from error
        if not text or len(text.split()) != 1:
            raise SettingsError(f"the API key file {self.api_key_file} does not hold one key; {_KEY_ADVICE}")
        return SecretStr(text)

    @property
    def has_webhook(self) -> bool:
        """Whether a webhook is named; its file is not read."""
        return self.alerts.webhook is not None or self.alerts.webhook_file is not None

    def webhook(self) -> SecretStr | None:
        """Where alerts are sent. Raises ``SettingsError`` on a file that holds no address."""
        return self._of_alerts("webhook")

    def webhook_secret(self) -> SecretStr | None:
        """What alerts are signed with. Raises ``SettingsError`` on a file that holds no secret."""
        return self._of_alerts("secret")

    def _of_alerts(self, name: str) -> SecretStr | None:
        file: Path | None = getattr(self.alerts, f"{name}_file")
        chosen = self.alerts
        if file is not None:
            try:
                chosen = AlertSettings(**{name: SecretStr(file.read_text().strip())})
            except (OSError, ValueError):
                raise SettingsError(f"the file {file} does not hold the {name} of alerts and nothing else") from None
        found: SecretStr | None = getattr(chosen, name)
        return found

    def node(self, chain: str) -> NodeSettings:
        """How the chain is read from nodes."""
        return self.sources.rpc.get(chain, NodeSettings())

    @property
    def node_chains(self) -> list[str]:
        """The chains that nodes are named for."""
        return sorted(chain for chain, own in self.sources.rpc.items() if own.is_named)

    def node_endpoints(self, chain: str) -> list[SecretStr]:
        """The addresses of the chain's nodes, read from their file where one is named; none where none is.

        Raises ``SettingsError`` on a file that holds no address.
        """
        chosen = self.node(chain)
        if chosen.endpoints_file is None:
            return chosen.endpoints
        try:
            lines = chosen.endpoints_file.read_text().split()
            return NodeSettings(endpoints=lines or [""]).endpoints
        except (OSError, ValueError):
            raise SettingsError(
                f"the file {chosen.endpoints_file} of chain {chain} does not hold addresses of nodes, one a line"
            ) from None

    def without_provider(self) -> Settings:
        """The same settings on the embedded default, asked over HTTP like any provider: its tokens and address sets."""
        embedded = self.provider.model_copy(update={"url": None, "local": "sample", "direct": False})
        return self.model_copy(update={"provider": embedded, "watchlist": {}, "address_sets": {}})

    def with_run_ceiling(self, hundredths: int) -> Settings:
        """The same settings with a ceiling for each run, in hundredths of a credit; a lower one stays."""
        lowest = hundredths if self.budget.per_run is None else min(hundredths, self.budget.per_run)
        return self.model_copy(update={"budget": self.budget.model_copy(update={"per_run": lowest})})

    def with_service(self, **chosen: Any) -> Settings:
        """The same settings with other ones of the service; None or an empty text leaves one as it is."""
        given = {name: value for name, value in chosen.items() if value not in (None, "")}
        return self.model_copy(update={"service": self.service.model_copy(update=given)})


def load_settings(path: Path | None = None) -> Settings:
    """The settings of a file and the environment. Raises ``SettingsError``, which names every fault.

    The file is ``path``, else what ``HOLDERLAKE_CONFIG`` names, else ``holderlake.toml`` if it is here.
    """
    path, from_file = _read_file(path)
    try:
        from_environment = EnvSettingsSource(Settings)()
    except ValueError as error:
        raise SettingsError(f"an environment variable can't be read, for lists are written in JSON: {error}") from error
    faults: list[str] = []
    try:
        settings = Settings(**_over(from_file, from_environment))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        faults = [_sentence(fault, path, from_environment) for fault in found]
    faults = [*_unknown_variables(), *faults]
    if faults:
        raise SettingsError("; ".join(faults)) from None
    return settings


def _unknown_variables() -> list[str]:
    """Return a sentence for each environment variable of a section that does not exist."""
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


def _read_file(given: Path | None) -> tuple[Path, dict[str, Any]]:
    named = given or os.environ.get(CONFIG_VARIABLE)
    path = Path(named or CONFIG_NAME).expanduser()
    try:
        # a decimal stays what was written, so that credits are exact
        values = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except FileNotFoundError as error:
        if named:
            raise SettingsError(f"there is no settings file {path}; {CONFIG_VARIABLE} may name another") from error
        return path, {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{path} can't be read: {error}") from error
    for name in {"api_key", "api_key_file"} & values.keys():
        raise SettingsError(f"{name} does not belong in {path}, which people share; take it out and {_KEY_ADVICE}")
    for section, secret in _secrets_in(values):
        raise SettingsError(
            f"{section}.{secret} does not belong in {path}, which people share; take it out and set "
            f"HOLDERLAKE_{section.upper()}__{secret.upper()} in the environment"
        )
    for chain in _chains_with_endpoints(values):
        raise SettingsError(
            f"sources.rpc.{chain}.endpoints does not belong in {path}, which people share; take it out and set "
            f"HOLDERLAKE_SOURCES__RPC__{chain.upper()}__ENDPOINTS in the environment, or name an endpoints_file"
        )
    return path, _beside(path.parent, values)


def _secrets_in(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Sections and names of secrets that stand in the file."""
    sections = {name: values[name] for name in _SECRETS if isinstance(values.get(name), dict)}
    return [(name, secret) for name, own in sections.items() for secret in sorted(_SECRETS[name] & own.keys())]


def _nodes(values: Mapping[str, Any]) -> dict[str, Any]:
    """The file's sections of nodes by chain, where they are sections at all."""
    sources = values.get("sources")
    rpc = sources.get("rpc") if isinstance(sources, dict) else None
    return {chain: own for chain, own in rpc.items() if isinstance(own, dict)} if isinstance(rpc, dict) else {}


def _chains_with_endpoints(values: Mapping[str, Any]) -> list[str]:
    return [chain for chain, own in _nodes(values).items() if "endpoints" in own]


def _beside(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The file's values with its paths relative to its folder."""
    moved = dict(values)
    if isinstance(values.get("home"), str):
        moved["home"] = folder / Path(values["home"]).expanduser()
    engine = values.get("engine")
    if isinstance(engine, dict) and isinstance(engine.get("store"), str):
        moved["engine"] = engine | {"store": folder / Path(engine["store"]).expanduser()}
    alerts = values.get("alerts")
    if isinstance(alerts, dict):
        named = {name: alerts[name] for name in ("webhook_file", "secret_file") if isinstance(alerts.get(name), str)}
        moved["alerts"] = alerts | {name: folder / Path(text).expanduser() for name, text in named.items()}
    for own in _nodes(moved).values():
        if isinstance(own.get("endpoints_file"), str):
            own["endpoints_file"] = folder / Path(own["endpoints_file"]).expanduser()
    return moved


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both together, section by section; what stands above wins."""
    return {
        **below,
        **{
            name: _over(below[name], value)
            if isinstance(value, Mapping) and isinstance(below.get(name), Mapping)
            else value
            for name, value in above.items()
        },
    }


def _sentence(fault: ErrorDetails, path: Path, from_environment: Mapping[str, Any]) -> str:
    parts = fault["loc"]
    text = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        text = _nearest(parts)
    return f"{_place(parts, path, from_environment)}: {text}" if parts else text


def _place(parts: Sequence[int | str], path: Path, from_environment: Mapping[str, Any]) -> str:
    """Return where a setting was given: its environment variable, or the file and the key."""
    name = ".".join(str(part) for part in parts)
    variable = (
        "__".join(["HOLDERLAKE", *(part for part in parts if isinstance(part, str))]).upper().replace("__", "_", 1)
    )
    return variable if _is_in(from_environment, parts) else f"{path}: {name}"


def _nearest(parts: Sequence[int | str]) -> str:
    """What an unknown key may have been meant for."""
    *section, key = parts
    known = _keys_of(section)
    near = difflib.get_close_matches(str(key), known, 1, 0.5)
    advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"there is no such setting; {advice}"


def _keys_of(section: Sequence[int | str]) -> list[str]:
    model: type[BaseModel] = Settings
    for part in section:
        field = model.model_fields.get(str(part))
        if field is None:  # the name of an address set, which its model follows
            continue
        candidates = [field.annotation, *get_args(field.annotation)]
        model = next(one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel))
    return list(model.model_fields)


def _is_in(values: Any, parts: Sequence[int | str]) -> bool:
    for part in parts:
        if not isinstance(values, Mapping):
            return True  # within a value that was given as a whole
        if part not in values:
            return False
        values = values[part]
    return True
