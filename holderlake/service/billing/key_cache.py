"""Keys that were looked up a moment ago, so that a busy caller is not looked up for every request.

A key that ended meanwhile is found out when its credits are reserved, so nothing is answered for it.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

from cachetools import TTLCache

from holderlake.service.billing.keys import Key, KeyStore

_SECONDS: Final = 1.0
_MOST: Final = 10_000


class KnownKeys:
    """Finds keys by their secrets. For one event loop; holds digests of secrets, not secrets."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self._known: TTLCache[bytes, Key] = TTLCache(_MOST, _SECONDS)

    async def find(self, secret: str) -> Key | None:
        """The key of a secret, or None where it is unknown or has ended. Raises ``KeysBusy``."""
        digest = hashlib.sha256(secret.encode("latin-1", "replace")).digest()
        key = self._known.get(digest)
        if key is None:
            key = await asyncio.to_thread(self._keys.find, secret)
            if key is not None:
                self._known[digest] = key
        return key

    def peek(self, secret: bytes) -> Key | None:
        """The key of a header's bytes, where it was looked up a moment ago."""
        return self._known.get(hashlib.sha256(secret).digest())

    def forget(self) -> None:
        """Looks everyone up anew."""
        self._known.clear()
