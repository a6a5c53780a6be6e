"""Cache of encoded answers, bounded by bytes; the least recently used answer is dropped first.

An answer about a past instant never expires. An answer about the present has a lifetime that grows with the token's age
(``lifetimes`` in the settings).

An import adds transfers. It makes an answer invalid if the first added transfer is not later than the answer's instant.
An answer about the present has an exception, because each new block would make it invalid: if its lifetime is n
seconds, it stays valid when all added transfers are from the last n seconds before its instant. It then lacks new
transfers until its lifetime ends.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from cachetools import LRUCache

from holderlake.core.contract.requests import Request, RulesRequest, TokenRequest
from holderlake.engine.store.store import Store
from holderlake.service.output.formats import Format

_ENTRY_OVERHEAD: Final = 1_000
"""Approximate bytes of a cache entry in addition to the answer's body."""


@dataclass(frozen=True)
class EncodedAnswer:
    """The bytes of an answer (``body``), and the values of its headers.

    ``as_of`` is the instant of the answer (unix seconds). ``generation`` is the number of the store's latest change
    when the answer was computed.
    """

    body: bytes
    media_type: str
    as_of: int
    generation: int
    dt_update: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @cached_property
    def etag(self) -> str:
        """The value of the header ``ETag``: a quoted hash of the body."""
        return f'"{hashlib.blake2b(self.body, digest_size=16, usedforsecurity=False).hexdigest()}"'

    @cached_property
    def raw_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """The encoded headers that are the same for all callers, with names in lower case."""
        headers = [("etag", self.etag), ("cache-control", "private, no-cache"), *self.headers]
        headers.append(("x-rules", RulesRequest.route))
        if self.dt_update is not None:
            headers.append(("x-dt-update", self.dt_update))
        return tuple((name.lower().encode(), value.encode("latin-1")) for name, value in headers)


@dataclass(frozen=True)
class _Entry:
    """A cached answer. It is invalid from the time ``expires`` of the cache's clock (seconds).

    An import also makes it invalid if the first added transfer is at least ``slack`` seconds older than the answer's
    instant.
    """

    answer: EncodedAnswer
    slack: int
    expires: float


class AnswerCache:
    """The cache of answers of one process, for one event loop. ``clock`` returns monotonic seconds."""

    def __init__(self, store: Store, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._entries: LRUCache[Hashable, _Entry] = LRUCache(
            max_bytes, getsizeof=lambda entry: len(entry.answer.body) + _ENTRY_OVERHEAD
        )

    @property
    def bytes_held(self) -> int:
        """Approximate bytes of all entries."""
        return int(self._entries.currsize)

    def find(self, key: Hashable) -> EncodedAnswer | None:
        """Return the cached answer, or None if it is missing, has expired, or is outdated by an import.

        This reads the store's generation first, so that imports by other processes are noticed.
        """
        self._store.generation()
        return self.find_known(key)

    def find_known(self, key: Hashable) -> EncodedAnswer | None:
        """Return the cached answer, or None if it is missing, has expired, or is known to be outdated.

        The store is not read, so imports by other processes may be missed.
        """
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._clock() >= entry.expires or self._is_outdated(entry):
            self._entries.pop(key, None)
            return None
        return entry.answer

    def keep(self, key: Hashable, answer: EncodedAnswer, lifetime: int | None) -> None:
        """Cache an answer for ``lifetime`` seconds. None caches it until an import changes data before its instant."""
        expires = self._clock() + lifetime if lifetime is not None else float("inf")
        entry = _Entry(answer, lifetime or 0, expires)
        if len(answer.body) + _ENTRY_OVERHEAD <= self._entries.maxsize and not self._is_outdated(entry):
            self._entries[key] = entry

    def _is_outdated(self, entry: _Entry) -> bool:
        changed = self._store.known_change_since(entry.answer.generation)
        return changed is not None and changed <= entry.answer.as_of - entry.slack


def key_of(request: Request, form: Format, now: int) -> Hashable:
    """Return the cache key of a request in a format. ``now`` is in unix seconds.

    The key ignores the option ``refresh``. A timestamp in the future has the same key as no timestamp.
    """
    options = dict(getattr(request, "options", request).__dict__)
    options.pop("refresh", None)
    if options.get("timestamp") is not None and options["timestamp"] >= now:
        options["timestamp"] = None
    token = (request.chain, request.token_address) if isinstance(request, TokenRequest) else ()
    return (request.endpoint, token, tuple(options.items()), form)


def matches(tags: str | None, answer: EncodedAnswer) -> bool:
    """Return whether a header ``If-None-Match`` (None if missing) contains the answer's ETag.

    ``*`` matches nothing: its sender has no answer yet, so a free 304 would give away a computation.
    """
    if tags is None:
        return False
    listed = {tag.strip().removeprefix("W/") for tag in tags.split(",")}
    return answer.etag in listed


def lifetime_of(age: int, lifetimes: Sequence[tuple[int | None, int]]) -> int:
    """Return for how many seconds an answer about a token's present may be cached.

    ``age`` is the token's age in seconds. ``lifetimes`` has pairs (age limit, lifetime) in seconds. The first pair
    whose limit is above the age decides; the limit None is above every age.
    """
    for younger_than, lifetime in lifetimes:
        if younger_than is None or age < younger_than:
            return lifetime
    return lifetimes[-1][1] if lifetimes else 0
