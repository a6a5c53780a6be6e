"""What a running service consists of, for its routes: store, keys, cashier, cache and computing threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Request

from holderlake.engine.store.store import Store
from holderlake.service.api.known_targets import Shortcuts
from holderlake.service.billing.key_cache import KnownKeys
from holderlake.service.billing.keys import KeyStore
from holderlake.service.billing.reservations import Cashier
from holderlake.service.cache import AnswerCache
from holderlake.service.observability import Metrics
from holderlake.service.runtime.worker_pool import Computing
from holderlake.service.settings import ServiceSettings


@dataclass
class Backend:
    """One a process. Store and keys stay their owner's to close; the rest is closed with the service."""

    store: Store
    keys: KeyStore
    settings: ServiceSettings
    metrics: Metrics = field(default_factory=Metrics)
    known_keys: KnownKeys = field(init=False)
    cashier: Cashier = field(init=False)
    cache: AnswerCache = field(init=False)
    computing: Computing = field(init=False)
    shortcuts: Shortcuts = field(default_factory=Shortcuts)

    def __post_init__(self) -> None:
        self.known_keys = KnownKeys(self.keys)
        self.cashier = Cashier(self.keys, self.store.generation)
        self.cache = AnswerCache(self.store, self.settings.cache_bytes)
        self.computing = Computing(self.settings.workers, self.settings.answer_seconds, self.settings.shutdown_seconds)

    async def close(self) -> None:
        """Finishes what is under way and books what is owed."""
        await self.computing.close()
        await self.cashier.close()


async def _backend(request: Request) -> Backend:
    return cast(Backend, request.app.state.backend)


BackendOfCall = Annotated[Backend, Depends(_backend)]
