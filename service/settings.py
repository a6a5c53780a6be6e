"""What an operator may set about a running service; the world it answers from is the store's own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServiceSettings:
    """``workers`` answers are computed at a time, the rest waits. ``calls_per_minute`` is per caller's address."""

    body_limit: int = 1 << 20
    workers: int = 16
    calls_per_minute: int = 10_000
    shutdown_seconds: int = 30
