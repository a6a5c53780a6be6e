"""All settings as one object, with the paths of the files under ``home`` and the secrets that are read from files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from pydantic import Field, SecretStr, ValidationInfo, create_model, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from holderlake.core.registry import Kind
from holderlake.core.setting_types import PathSetting, Section, TypedTokens, read_secret
from holderlake.core.settings.sections.lake import LakeSettings, SqlSettings, StateSettings
from holderlake.core.settings.sections.provider import (
    AddressSet,
    AddressSettings,
    HolderSettings,
    MapSettings,
    ProviderSettings,
)
from holderlake.core.settings.sections.schedule import Budget, Healing, Retention, Schedule

Chosen = TypeVar("Chosen", bound=Section)
SECTIONS: Final[Kind[type[Section]]] = Kind("settings")
"""Sections of other rooms, each with the name of its ``TABLE``."""


class CoreSettings(BaseSettings):
    """The settings of the core; ``Settings`` has the sections of the rooms too.

    ``load_settings`` reads them from file and environment; the constructor uses its arguments only.
    """

    model_config = SettingsConfigDict(
        env_prefix="HOLDERLAKE_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    home: PathSetting = Field(default=Path("data"), description="Folder of everything that runs write")
    api_key: SecretStr | None = Field(default=None, description="The provider's API key; environment only")
    api_key_file: PathSetting | None = Field(
        default=None, description="A file that contains the API key; environment only"
    )
    provider: ProviderSettings = ProviderSettings()
    watchlist: TypedTokens = Field(
        default={},
        description="Token addresses (or native) by chain",
        examples=[{"eth": ["0x6ba6f2207e343923ba692e5cae646fb0f566db8d"]}],
    )
    address_sets: dict[str, AddressSet] = Field(default={}, description="Named address sets")
    budget: Budget = Budget()
    state: StateSettings = StateSettings()
    schedule: Schedule = Schedule()
    healing: Healing = Healing()
    retention: Retention = Retention()
    maps: MapSettings = MapSettings()
    holders: HolderSettings = Field(default=HolderSettings(), validate_default=True)
    addresses: AddressSettings = AddressSettings()
    lake: LakeSettings = LakeSettings()
    sql: SqlSettings = SqlSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Use the constructor's arguments only; ``load_settings`` reads file and environment."""
        return (init_settings,)

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.api_key is not None and self.api_key_file is not None:
            raise ValueError("api_key and api_key_file are both set: remove one of them")
        return self

    @field_validator("holders")
    @classmethod
    def _with_details(cls, holders: HolderSettings, info: ValidationInfo) -> HolderSettings:
        """Add the details of holders by default if they cost nothing."""
        provider = info.data.get("provider")
        if provider is None or provider.local != "store" or "with_metadata" in holders.model_fields_set:
            return holders
        return holders.model_copy(update={"with_metadata": True})

    @property
    def lake_folder(self) -> Path:
        return self.home / "lake"

    def bucket_folder(self, url: str) -> Path:
        """Return the folder of this host's copies of files in the bucket at ``url``."""
        return self.home / "bucket" / hashlib.sha256(url.encode()).hexdigest()[:16]

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

    def key(self) -> SecretStr | None:
        """Return the API key. Raises ``SettingsError`` if its file does not contain exactly one key."""
        if self.api_key_file is None:
            return self.api_key
        return read_secret(self.api_key_file, "the API key", _one_word)

    def unscheduled_sets(self) -> list[str]:
        """Return a sentence for each address set of a chain without watched tokens: no partition of it is scheduled."""
        return [
            f"address_sets.{name} is of chain {address_set.chain}, of which no token is watched, so scheduled runs "
            f"leave it out: add a token of {address_set.chain} under [watchlist], or remove the set"
            for name, address_set in sorted(self.address_sets.items())
            if address_set.chain is not None and address_set.chain not in self.watchlist
        ]

    def without_provider(self) -> Self:
        """Return these settings with the embedded service, over HTTP, as provider, its tokens and address sets."""
        embedded = self.provider.model_copy(update={"url": None, "local": "sample", "direct": False})
        return self.model_copy(update={"provider": embedded, "watchlist": {}, "address_sets": {}})

    def with_run_ceiling(self, hundredths: int) -> Self:
        """Return these settings with a ceiling per run, in hundredths of a credit. A lower existing ceiling stays."""
        lowest = hundredths if self.budget.per_run is None else min(hundredths, self.budget.per_run)
        return self.model_copy(update={"budget": self.budget.model_copy(update={"per_run": lowest})})

    def section(self, kind: type[Chosen]) -> Chosen:
        """Return the section of a room, by its class."""
        section: Chosen = getattr(self, kind.TABLE)
        return section

    def with_values(self, table: str, **values: Any) -> Self:
        """Return these settings with values of one section replaced. None or an empty text keeps the old value."""
        given_values = {name: value for name, value in values.items() if value not in (None, "")}
        return self.model_copy(update={table: getattr(self, table).model_copy(update=given_values)})


def _one_word(text: str) -> SecretStr:
    (word,) = text.split()
    return SecretStr(word)


if TYPE_CHECKING:
    Settings: TypeAlias = CoreSettings
else:  # the sections of the rooms are fields like those of the core
    _of_rooms = {kind.TABLE: (kind, kind()) for kind in SECTIONS.parts()}
    Settings = create_model("Settings", __base__=CoreSettings, __module__=__name__, **_of_rooms)
