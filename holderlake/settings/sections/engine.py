"""The sections ``[engine]`` and ``[engine.thresholds]``: the store of your own imports and the classification rules."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from holderlake.settings.fields import Addresses, Folder, MemoryLimit, Section, TypedTokens


class Thresholds(Section):
    """Thresholds of the engine's classification. A threshold without a value has the engine's default. Each command
    that opens the store reports thresholds that changed."""

    supernode_degree: int | None = Field(default=None, ge=1, description="Counterparties from which one is a supernode")
    hypernode_transfers: int | None = Field(default=None, ge=0, description="Transfers above which one is a hypernode")
    magic_links: int | None = Field(default=None, ge=1, description="Shown holders that a magic node must connect")
    magic_limit: int | None = Field(default=None, ge=0, description="Most magic nodes of a map")
    time_window: int | None = Field(default=None, ge=1, description="Seconds of a time node's window")
    time_links: int | None = Field(default=None, ge=1, description="Shown holders that must share a time node")
    time_wallets: int | None = Field(
        default=None, ge=1, description="Counterparties of an exchange in a window above which there is no time node"
    )
    time_limit: int | None = Field(default=None, ge=0, description="Most time nodes of a map")
    fresh_wallet_seconds: int | None = Field(default=None, ge=0, description="Age below which a wallet is fresh")
    time_allowed: Addresses | None = Field(
        default=None, description="Contracts that may be the exchange of a time node"
    )

    def chosen_values(self) -> dict[str, Any]:
        """Return the thresholds that have a value, by the engine's names."""
        return self.model_dump(exclude_none=True)


class EngineSettings(Section):
    """The engine behind `holderlake import` and `serve`."""

    store: Folder | None = Field(default=None, description="Folder of the engine's store; by default `engine` in home")
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
