"""A cache of API keys for one second, so that the key of a frequent caller is not read from the database each time.

A key that was revoked while it is in the cache gets no answer, because reserving credits checks the key again.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

from cachetools import TTLCache

from holderlake.service.billing.keys import Key, KeyStore

_SECONDS: Final = 1.0
_MAX_KEYS: Final = 10_000


class KeyCache:
    """Finds API keys by their secrets, for one event loop. The cache contains only hashes of secrets."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self._cache: TTLCache[bytes, Key] = TTLCache(_MAX_KEYS, _SECONDS)

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
