"""Attempts of one request: whether it is sent again after an error, and the wait before.

A failure that may pass is repeated a few times. A refusal with HTTP 429 is repeated for two periods of the rate limit;
if every call is refused for longer, its error says why: another program uses the rate limit up, or the credits are.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from typing import Final

from holderlake.core.http import RESPONSE_BYTES
from holderlake.core.provider.errors import (
    CreditsExhausted,
    ProviderError,
    RateLimited,
    RateLimitPersists,
    TransientError,
)
from holderlake.core.provider.limiter import Limiter

LONGEST_WAIT: Final = 300.0
"""Longest ``Retry-After`` that a call waits for, in seconds. A longer one ends the attempts."""
_LONGEST_OWN_WAIT: Final = 30.0
"""Longest wait in seconds before an attempt, where the provider names none."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CallOptions:
    """Options of all calls. ``rate_window``: period of the provider's rate limit in seconds; a call that is refused
    with HTTP 429 is repeated for two such periods. ``charged_repeats``: most repeats of a call that may have been
    charged. ``answer_bytes``: most bytes of an answer, on the wire and after decompression."""

    rate_window: float = 60.0
    charged_repeats: int = 1
    answer_bytes: int = RESPONSE_BYTES


class Attempts:
    """The attempts of one request, at most ``most``. ``first_wait``: seconds before the second; each wait doubles.

    ``rate_per_minute`` is only quoted in errors.
    """

    def __init__(
        self, limiter: Limiter, options: CallOptions, most: int, first_wait: float, rate_per_minute: int
    ) -> None:
        self._limiter = limiter
        self._options = options
        self._most = most
        self._first_wait = first_wait
        self._rate_per_minute = rate_per_minute
        self._failures = self._charged = self._refusals = 0
        self._refused_since = 0.0

    async def wait(self, error: TransientError) -> None:
        """Wait until the next attempt after ``error``; raise the request's error if there is none."""
        self._limiter.failed()
        jitter = random.uniform(0, self._first_wait)  # noqa: S311 - spreads the load, no secret
        if isinstance(error, RateLimited):
            seconds = self._after_refusal(error, asyncio.get_running_loop().time()) + jitter
            self._limiter.pause(seconds)  # earlier calls would be refused as well
        else:
            seconds = self._after_failure(error) + jitter
            _log.info("attempt %d failed (%s); trying again in %.1f s", self._failures, type(error).__name__, seconds)
        await asyncio.sleep(seconds)

    def _after_failure(self, error: TransientError) -> float:
        self._failures += 1
        self._charged += error.maybe_charged
        wait = error.retry_after or 0.0
        if self._failures >= self._most or self._charged > self._options.charged_repeats or wait > LONGEST_WAIT:
            raise error
        return min(self._growing(self._failures - 1), _LONGEST_OWN_WAIT) if error.retry_after is None else wait

    def _after_refusal(self, error: RateLimited, now: float) -> float:
        """Return the seconds until the next attempt; ``now`` is the time of the event loop's clock."""
        window, asked = self._options.rate_window, error.retry_after
        self._refused_since = self._refused_since if self._refusals else now
        self._raise_persisting(error, now - self._refused_since)
        growing = min(self._growing(self._refusals), window / 4)
        self._refusals += 1
        if asked is None or asked > LONGEST_WAIT:
            return min(growing, self._refused_since + 2 * window - now)
        return max(asked, growing if self._refusals > 1 else 0.0)

    def _growing(self, earlier: int) -> float:
        """Return the wait after some ``earlier`` failures."""
        return float(self._first_wait * 2 ** min(earlier, 30))

    def _raise_persisting(self, error: RateLimited, refused_for: float) -> None:
        """Raise the error that ends the attempts, if another one cannot succeed."""
        is_clear = error.code == RateLimited.code
        seconds = 2 * self._options.rate_window
        refused = f"refused for two rate windows ({seconds:g} s)"
        if is_clear and error.retry_after is not None and error.retry_after > LONGEST_WAIT:
            reason = f"it asks to wait {error.retry_after:,.0f} s"
        elif refused_for < seconds:
            return
        elif self._limiter.answered_at > self._refused_since:
            raise _ended(error, RateLimited, f"{refused} while other calls were answered")
        elif is_clear:
            reason = f"every call was {refused}"
        else:
            reason = f"every call was {refused}, which is too long for a rate limit: the credits seem to be used up"
            raise _ended(error, CreditsExhausted, reason)
        raise _ended(
            error,
            RateLimitPersists,
            f"{reason}. This is a rate limit, not used-up credits: another program uses the same key or address, or "
            f"the limit is below provider.rate_per_minute ({self._rate_per_minute})",
        )


def _ended(error: RateLimited, kind: type[ProviderError], reason: str) -> ProviderError:
    """Return the error of a request that was refused with ``error`` until the end."""
    last = kind(f"{error.detail}; {reason}", None, error.status)
    last.maybe_charged = error.maybe_charged
    return last
