"""The settings: one file ``holderlake.toml``, and environment variables ``HOLDERLAKE_…`` over it.

Nested settings have two underscores, as in ``HOLDERLAKE_PROVIDER__URL``. The API key comes from the environment
or a file that it names, never from the settings file, which people commit.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from contract.models import HolderLimit, TokenKey
from contract.prices import parse_credits

CONFIG_NAME: Final = "holderlake.toml"


class SettingsError(Exception):
    """The settings can't be used; the message names the setting and the way out."""


def _hundredths(value: Any) -> Any:
    if isinstance(value, bool | float):
        raise ValueError('write credits as whole numbers or as text: 25 or "25.01"')
    return parse_credits(str(value)) if isinstance(value, str | int) else value


def _offset(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    hours, _, minutes = value.partition(":")
    if not (hours.isdigit() and minutes.isdigit() and int(hours) < 24 and int(minutes) < 60):
        raise ValueError(f"{value!r} is no time of day; write HH:MM, as 06:00")
    return timedelta(hours=int(hours), minutes=int(minutes))


Credits = Annotated[int, BeforeValidator(_hundredths)]
"""Hundredths of a credit, written as credits."""
Offset = Annotated[timedelta, BeforeValidator(_offset)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ProviderSettings(_Section):
    """Who answers. Without ``url`` it is the embedded service over the sample world."""

    url: str | None = Field(default=None, pattern=r"^https?://", description="Base address of a provider of /v0.")
    timeout_seconds: float = Field(default=60.0, gt=0, description="Longest wait for an answer.")
    attempts: int = Field(default=4, ge=1, description="Tries of a request that may be worth a retry.")
    concurrency: int = Field(default=16, ge=1, description="Requests under way at once.")
    rate_per_minute: int = Field(default=10_000, ge=1, description="Calls a minute, at most.")


class AddressSet(_Section):
    """A named set of addresses for the subgraphs; on every chain unless one is named."""

    addresses: list[str] = Field(min_length=2, description="Its addresses.")
    chain: str | None = Field(default=None, description="The chain whose partitions it belongs to; all by default.")
    context: TokenKey | None = Field(default=None, description="A token whose transfers count besides indexed ones.")


class BudgetSettings(_Section):
    """Ceilings in credits; none where none is set."""

    per_run: Credits | None = Field(default=None, description="Most that a run may spend.")
    per_day: Credits | None = Field(default=None, description="Most that a day (UTC) may spend.")
    per_month: Credits | None = Field(default=None, description="Most that a month from renewal to renewal may spend.")
    renewal_day: int = Field(default=1, ge=1, le=31, description="Day of the month on which the allowance renews.")


class ScheduleSettings(_Section):
    """When partitions are fetched, and at which instants of a day."""

    cron: str = Field(default="5 0 * * *", description="When the daily schedule runs, UTC.")
    offsets: list[Offset] = Field(
        default=[timedelta(0)], min_length=1, description="Times of day (HH:MM) of a partition's instants."
    )
    live_tolerance_seconds: int = Field(
        default=3_600,
        ge=0,
        description="An instant not older than this is fetched live, without the history surcharge.",
    )


class MapSettings(_Section):
    """What maps are asked with."""

    limit: HolderLimit = Field(default=80, description="Top holders of a map: 80, 250 or 500.")
    use_magic_nodes: bool = Field(default=True, description="Ask for magic nodes.")
    use_time_nodes: bool = Field(default=True, description="Ask for time nodes.")


class HolderSettings(_Section):
    """What holders are asked with."""

    limit: HolderLimit = Field(default=80, description="Holders of a token: 80, 250 or 500.")
    with_metadata: bool = Field(default=False, description="Ask for address details (25 credits a request).")


class AddressSettings(_Section):
    """Which addresses' metadata is fetched (custom plans)."""

    enabled: bool = Field(default=True, description="Ask for address metadata at all.")
    top: int = Field(default=10, ge=0, description="So many top holders of each token are asked about.")


class ServiceSettings(_Section):
    """Where ``holderlake serve`` listens."""

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8014, ge=1, le=65_535, description="Port to listen on.")


class Settings(BaseSettings):
    """All settings. Folders lie below ``home``."""

    model_config = SettingsConfigDict(
        env_prefix="HOLDERLAKE_", env_nested_delimiter="__", extra="forbid", env_ignore_empty=True, frozen=True
    )

    home: Path = Field(default=Path("data"), description="Folder of everything that runs produce.")
    provider: ProviderSettings = ProviderSettings()
    api_key: SecretStr | None = Field(default=None, description="API key; only from the environment.")
    api_key_file: Path | None = Field(default=None, description="File that holds the API key.")
    watchlist: dict[str, list[str]] = Field(default={}, description="Watched tokens by chain.")
    address_sets: dict[str, AddressSet] = Field(default={}, description="Named address sets.")
    budget: BudgetSettings = BudgetSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    maps: MapSettings = MapSettings()
    holders: HolderSettings = HolderSettings()
    addresses: AddressSettings = AddressSettings()
    service: ServiceSettings = ServiceSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment goes over the file, whose values are handed in."""
        return env_settings, init_settings

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
    def dagster_home(self) -> Path:
        return self.home / "dagster"

    @property
    def engine_store(self) -> Path:
        return self.home / "engine"

    @property
    def service_keys(self) -> Path:
        return self.home / "service" / "keys.sqlite"

    def key(self) -> SecretStr | None:
        """The API key, from the environment or the file that it names. Raises ``SettingsError``."""
        if self.api_key is not None or self.api_key_file is None:
            return self.api_key
        try:
            return SecretStr(self.api_key_file.read_text().strip())
        except OSError as error:
            raise SettingsError(f"HOLDERLAKE_API_KEY_FILE names {self.api_key_file}: {error.strerror}") from error

    def without_provider(self) -> Settings:
        """The same settings over the embedded default, with its own watchlist."""
        return self.model_copy(update={"provider": ProviderSettings(), "watchlist": {}, "address_sets": {}})

    def with_run_ceiling(self, hundredths: int) -> Settings:
        """The same settings with a lower ceiling a run."""
        set_one = self.budget.per_run
        lower = hundredths if set_one is None else min(set_one, hundredths)
        return self.model_copy(update={"budget": self.budget.model_copy(update={"per_run": lower})})


def load_settings(path: Path | None = None) -> Settings:
    """The settings of a file (``HOLDERLAKE_CONFIG``, else ``holderlake.toml`` if it is here) and the environment.

    Raises ``SettingsError`` naming what is wrong and the way out.
    """
    named = path or (Path(os.environ["HOLDERLAKE_CONFIG"]) if os.environ.get("HOLDERLAKE_CONFIG") else None)
    plain = _read(named or Path(CONFIG_NAME), required=named is not None)
    try:
        return Settings(**plain)
    except ValidationError as error:
        raise SettingsError(_sentence(error)) from None


def _read(path: Path, required: bool) -> dict[str, Any]:
    if not path.exists():
        if required:
            raise SettingsError(f"there is no settings file {path}")
        return {}
    try:
        plain = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{path} is not TOML that can be read: {error}") from error
    for name in ("api_key", "api_key_file"):
        if name in plain:
            raise SettingsError(f"{name} may not stand in {path}; set HOLDERLAKE_{name.upper()} in the environment")
    return plain


def _sentence(error: ValidationError) -> str:
    """The first fault as a sentence; values are left out, for one may be a secret."""
    first = error.errors(include_url=False, include_input=False)[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"there is no setting {name}{_nearest(str(first['loc'][-1]), first['loc'][:-1])}"
    return f"setting {name}: {first['msg'].removeprefix('Value error, ')}"


def _nearest(name: str, section: Iterable[Any]) -> str:
    model: type[BaseModel] = Settings
    for part in section:
        inner = model.model_fields[str(part)].annotation if str(part) in model.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return ""
        model = inner
    close = difflib.get_close_matches(name, model.model_fields, n=1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(sorted(model.model_fields))}"
