"""Waits between the attempts of a call that the provider refuses with HTTP 429.

A call is repeated for two periods of the rate limit. If it is refused longer than that, its error says why: a rate
limit that other programs use up too, or used-up credits.
"""

from __future__ import annotations

import random
from typing import Final

from holderlake.core.provider.errors import CreditsExhausted, ProviderError, RateLimited, RateLimitPersists

LONGEST_WAIT: Final = 300.0
"""Longest ``Retry-After`` that a call waits for, in seconds. A longer one ends the retries."""


class Backoff:
    """Computes how long one call waits after each refusal with HTTP 429.

    ``window`` is the period of the rate limit, ``first_wait`` the wait before the first retry; both are seconds.
    """

    def __init__(self, window: float, first_wait: float, rate_per_minute: int) -> None:
        self._window = window
        self._first_wait = first_wait
        self._rate_per_minute = rate_per_minute
        self._since: float | None = None
        self._count = 0

    def wait(self, error: RateLimited, now: float, answered_at: float) -> float:
        """Return the seconds until the next attempt of a call that was refused with ``error``.

        ``now`` and ``answered_at``, the time of the last answer to any call, are seconds of the event loop's clock.
        Raises ``RateLimitPersists``, ``CreditsExhausted`` or ``RateLimited`` if another attempt cannot succeed.
        """
        self._since = now if self._since is None else self._since
        failure = self._failure(error, now - self._since, answered_at > self._since)
        if failure is not None:
            raise failure
        growing = min(self._first_wait * 2.0 ** min(self._count, 30), self._window / 4)
        if error.retry_after is not None and error.retry_after <= LONGEST_WAIT:
            seconds = max(error.retry_after, growing if self._count else 0.0)
        else:
            seconds = min(growing, self._since + 2 * self._window - now)
        self._count += 1
        return seconds + random.uniform(0, self._first_wait)  # noqa: S311 - spreads the load, no secret

    def _failure(self, error: RateLimited, refused_for: float, has_other_answers: bool) -> ProviderError | None:
        is_clear = error.code == RateLimited.code
        if is_clear and error.retry_after is not None and error.retry_after > LONGEST_WAIT:
            return self._persisting(error, f"it asks to wait {error.retry_after:,.0f} s")
        if refused_for < 2 * self._window:
            return None
        refused = f"refused for two rate windows ({2 * self._window:g} s)"
        if has_other_answers:
            return RateLimited(f"{error.detail}; {refused} while other calls were answered", None, error.status)
        if is_clear:
            return self._persisting(error, f"every call was {refused}")
        words = f"every call was {refused}, which is too long for a rate limit: the credits seem to be used up"
        return CreditsExhausted(f"{error.detail}; {words}", None, error.status)

    def _persisting(self, error: RateLimited, why: str) -> RateLimitPersists:
        return RateLimitPersists(
            f"{error.detail}; {why}. This is a rate limit, not used-up credits: another program uses the same key or "
            f"address, or the limit is below provider.rate_per_minute ({self._rate_per_minute})",
            None,
            error.status,
        )
