"""The objects that all routes of a running service share."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, cast

from cachetools import LRUCache, TTLCache
from fastapi import Depends, Request

from holderlake.engine.store.store import Store
from holderlake.service.billing.keys import Key, KeyStore
from holderlake.service.billing.reservations import Billing
from holderlake.service.cache import AnswerCache
from holderlake.service.observability import Metrics
from holderlake.service.runtime.worker_pool import WorkerPool
from holderlake.service.settings import ServiceSettings

_KEY_SECONDS: Final = 1.0
_MAX_KEYS: Final = 10_000
_MAX_PARSED_REQUESTS: Final = 20_000
_LONGEST_TARGET: Final = 500
"""Bytes of the longest path and query that is cached: callers may add any parameters, which have no effect."""


class KeyCache:
    """Finds API keys by their secrets, for one event loop, and keeps each for a second. It has only hashes of secrets.

    A key that was revoked meanwhile gets no answer, because reserving credits checks the key again.
    """

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self._cache: TTLCache[bytes, Key] = TTLCache(_MAX_KEYS, _KEY_SECONDS)

    async def find(self, secret: str) -> Key | None:
        """Return the key of a secret, or None if it is unknown or has ended. Raises ``DatabaseError``."""
        digest = hashlib.sha256(secret.encode("latin-1", "replace")).digest()
        key = self._cache.get(digest)
        if key is None:
            key = await asyncio.to_thread(self._keys.find, secret)
            if key is not None:
                self._cache[digest] = key
        return key

    def clear(self) -> None:
        """Remove all keys from the cache."""
        self._cache.clear()


@dataclass
class Backend:
    """The shared objects of one service process: store, keys, settings, caches, billing and worker threads.

    The caller owns and closes store and keys; ``close`` closes the other objects. ``parsed_requests`` is a cache: its
    key is the method, path and query of a request, its value the request's route and the arguments for
    ``Meter.answer``.
    """

    store: Store
    keys: KeyStore
    settings: ServiceSettings
    metrics: Metrics = field(default_factory=Metrics)
    key_cache: KeyCache = field(init=False)
    billing: Billing = field(init=False)
    cache: AnswerCache = field(init=False)
    workers: WorkerPool = field(init=False)
    parsed_requests: LRUCache[Hashable, tuple[Any, ...]] = field(default_factory=lambda: LRUCache(_MAX_PARSED_REQUESTS))

    def keep_parsed(self, target: tuple[str, str, bytes], parsed: tuple[Any, ...]) -> None:
        """Cache a parsed request by its method, path and query, unless they are too long."""
        if sum(map(len, target)) <= _LONGEST_TARGET:
            self.parsed_requests[target] = parsed

    def __post_init__(self) -> None:
        self.key_cache = KeyCache(self.keys)
        self.billing = Billing(self.keys, self.store.generation)
        self.cache = AnswerCache(self.store, self.settings.cache_bytes)
        self.workers = WorkerPool(self.settings.workers, self.settings.answer_seconds, self.settings.shutdown_seconds)

    async def close(self) -> None:
        """Wait for running computations, then settle or release all open reservations."""
        await self.workers.close()
        await self.billing.close()


async def _backend(request: Request) -> Backend:
    return cast(Backend, request.app.state.backend)


BackendDependency = Annotated[Backend, Depends(_backend)]
