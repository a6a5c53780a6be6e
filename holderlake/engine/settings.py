"""The section ``[engine]``: the user's own store, and the rules that its maps follow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from holderlake.core.contract.rules import Rules
from holderlake.core.setting_types import MemoryLimit, PathSetting, Section, TypedTokens

if TYPE_CHECKING:  # the settings import this module
    from holderlake.core.settings import Settings


class Thresholds(Section, Rules):
    """Rules of the engine's classification. Each command that opens the store reports rules that changed."""


class EngineSettings(Section):
    """The engine behind `holderlake import` and `serve`."""

    TABLE: ClassVar = "engine"

    store: PathSetting | None = Field(
        default=None, description="Folder of the engine's store; by default `engine` in home"
    )
    memory_limit: MemoryLimit = Field(
        default="2GB", description="Memory that an import aims at; more data is spilled to the store's folder"
    )
    indexed: TypedTokens = Field(
        default={}, description="Tokens by chain, or `native`, whose transfers connect holders on every map"
    )
    thresholds: Thresholds = Thresholds()

    @property
    def index_keys(self) -> tuple[tuple[str, str], ...]:
        """The indexed tokens as pairs of chain and address."""
        return tuple((chain, token) for chain, tokens in sorted(self.indexed.items()) for token in tokens)


def store_folder(settings: Settings) -> Path:
    """Return the folder of the engine's store."""
    return settings.section(EngineSettings).store or settings.home / "engine"
