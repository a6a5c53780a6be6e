"""Answers kept for the next caller: found by what was asked, for as long as nothing has changed their past.

A history answer never expires by itself; one about the present lives as long as the age of its token allows (the
settings' ``lifetimes``). Either ends when transfers or labels arrive that reach below its instant; for the present,
transfers of its own lifetime are the news that it may lag behind by, not late ones. Bounded by bytes; the least
recently asked goes first. For one event loop.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from cachetools import LRUCache

from holderlake.contract.requests import Request, TokenRequest
from holderlake.engine.store.store import Store
from holderlake.service.output.formats import Format

_OVERHEAD: Final = 1_000
"""Bytes that an entry takes beside its body, about."""


@dataclass(frozen=True)
class Written:
    """An answer's bytes as they go out, with what the headers say of it.

    ``as_of`` is the instant that it shows (unix seconds) and ``generation`` what the store held when it was computed.
    """

    body: bytes
    media_type: str
    as_of: int
    generation: int
    dt_update: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @cached_property
    def etag(self) -> str:
        """Names these very bytes."""
        return f'"{hashlib.blake2b(self.body, digest_size=16, usedforsecurity=False).hexdigest()}"'

    @cached_property
    def raw_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """What the headers say of the answer, whoever gets it."""
        told = [("etag", self.etag), ("cache-control", "private, no-cache"), *self.headers]
        if self.dt_update is not None:
            told.append(("x-dt-update", self.dt_update))
        return tuple((name.lower().encode(), value.encode("latin-1")) for name, value in told)


@dataclass(frozen=True)
class _Entry:
    written: Written
    slack: int
    ends: float


class _Bounded(LRUCache[Hashable, _Entry]):
    """Counts what it had to let go of."""

    evicted = 0

    def popitem(self) -> tuple[Hashable, _Entry]:
        self.evicted += 1
        return super().popitem()


class AnswerCache:
    """The cache of one process. ``clock`` is monotonic, in seconds."""

    def __init__(self, store: Store, most_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._entries = _Bounded(most_bytes, getsizeof=lambda entry: len(entry.written.body) + _OVERHEAD)

    @property
    def bytes_held(self) -> int:
        """Bytes of all entries, about."""
        return int(self._entries.currsize)

    @property
    def evicted(self) -> int:
        """Entries that had to go to make room."""
        return self._entries.evicted

    def find(self, key: Hashable) -> Written | None:
        """The answer that is kept under a key, if it still holds by what the store holds now."""
        self._store.generation()
        return self.peek(key)

    def peek(self, key: Hashable) -> Written | None:
        """As ``find``, by what the store held when it was last looked at: it takes no look of its own."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._clock() >= entry.ends or self._is_outdated(entry):
            self._entries.pop(key, None)
            return None
        return entry.written

    def keep(self, key: Hashable, written: Written, lifetime: int | None) -> None:
        """Keeps an answer for ``lifetime`` seconds, or until its past changes where that is None."""
        ends = self._clock() + lifetime if lifetime is not None else float("inf")
        entry = _Entry(written, lifetime or 0, ends)
        if len(written.body) + _OVERHEAD <= self._entries.maxsize and not self._is_outdated(entry):
            self._entries[key] = entry

    def _is_outdated(self, entry: _Entry) -> bool:
        changed = self._store.known_change_since(entry.written.generation)
        return changed is not None and changed <= entry.written.as_of - entry.slack


def key_of(request: Request, form: Format, now: int) -> Hashable:
    """What a request asks for, whatever makes no difference to its answer: an instant to come is the present."""
    asked = dict(getattr(request, "options", request).__dict__)
    asked.pop("refresh", None)
    if asked.get("timestamp") is not None and asked["timestamp"] >= now:
        asked["timestamp"] = None
    token = (request.chain, request.token_address) if isinstance(request, TokenRequest) else ()
    return (request.endpoint, token, tuple(asked.items()), form)


def is_known(tags: str | None, written: Written) -> bool:
    """Whether one of the tags of an ``If-None-Match`` names this very answer."""
    if tags is None:
        return False
    named = {tag.strip().removeprefix("W/") for tag in tags.split(",")}
    return written.etag in named or "*" in named


def lifetime_of(age: int, lifetimes: Sequence[tuple[int | None, int]]) -> int:
    """Seconds that an answer about the present is kept, for a token of an age in seconds."""
    for younger_than, kept in lifetimes:
        if younger_than is None or age < younger_than:
            return kept
    return lifetimes[-1][1] if lifetimes else 0
