"""What a running service consists of, for its routes: store, keys, cashier, cache and computing threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Request

from engine.store import Store
from service.cache import AnswerCache
from service.cashier import Cashier
from service.computing import Computing
from service.keys import KeyStore
from service.known_keys import KnownKeys
from service.observe import Metrics
from service.settings import ServiceSettings
from service.shortcuts import Shortcuts


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
