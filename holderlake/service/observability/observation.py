"""What is known of the request that is being answered, for whoever logs within it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Observation:
    """One request. The middleware makes it; routes set what only they know.

    ``key`` is the prefix of the caller's key, ``cost`` is in hundredths of a credit, ``cached`` tells whether the
    answer was there already, ``failure`` is the type of an unforeseen exception. ``code`` is the contract's error code;
    the middleware reads it off the answer.
    """

    request_id: str
    key: str | None = None
    account: Any = None
    cost: int | None = None
    cached: bool | None = None
    code: str | None = None
    failure: str | None = None


_current: ContextVar[Observation | None] = ContextVar("observation", default=None)


def observation() -> Observation:
    """The request under way in this context; outside of one, an observation that nobody reads."""
    return _current.get() or Observation("")


def request_id() -> str | None:
    """The id of the request under way in this context."""
    found = _current.get()
    return found.request_id if found is not None else None


def begin(observed: Observation) -> None:
    """Makes it the context's. It stays so: a server's task answers one request, and logs how that ended."""
    _current.set(observed)
