"""What an operator may set for a running service. What it answers from is in the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOUR: Final = 3_600
DAY: Final = 24 * HOUR

LIFETIMES: Final = ((HOUR, 30), (DAY, 300), (30 * DAY, HOUR), (None, 6 * HOUR))
"""How long an answer about the present is kept, by the age of the token: (younger than, kept for), in seconds."""


@dataclass(frozen=True)
class ServiceSettings:
    """Limits are for one caller unless they say otherwise; sizes are in bytes, times in seconds.

    ``workers`` answers are computed at a time in one process, the rest waits. ``trusted_proxies`` and ``metrics_from``
    are networks (``10.0.0.0/8``): whose ``X-Forwarded-For`` is believed, and who may read ``/metrics``. ``lifetimes``
    is as ``LIFETIMES``, by rising age. ``shared_limits`` counts calls in the database, for all processes together.
    ``score_names`` are further keys for the score; ``decentralization_score`` is also a field of the map itself.
    """

    workers: int = 16
    calls_per_minute: int = 10_000
    shared_limits: bool = False
    trusted_proxies: tuple[str, ...] = ()
    connections_per_address: int = 1_000
    header_limit: int = 32 << 10
    body_limit: int = 1 << 20
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    answer_seconds: float = 60.0
    shutdown_seconds: int = 30
    cache_bytes: int = 256 << 20
    lifetimes: tuple[tuple[int | None, int], ...] = LIFETIMES
    public_url: str | None = None
    metrics_from: tuple[str, ...] = ("127.0.0.0/8", "::1/128")
    score_names: tuple[str, ...] = ()
