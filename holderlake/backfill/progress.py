"""How far a backfill is, told while it runs: partitions, calls, credits, calls a minute and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from holderlake.contract.prices import credits_text
from holderlake.ingest.stream import PartitionResult

_EVERY_SECONDS: Final = 15.0


@dataclass
class Progress:
    """What a backfill has done of its ``partitions`` so far; ``credits`` in hundredths."""

    partitions: int
    landed: int = 0
    calls: int = 0
    credits: int = 0
    computed: int = 0
    began: float = field(default_factory=time.monotonic)

    def add(self, one: PartitionResult) -> None:
        """Counts a partition that is finished."""
        self.landed += 1
        self.calls += one.calls
        self.credits += one.credits
        self.computed += one.computed

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def calls_a_minute(self) -> float:
        return 60 * self.calls / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """By the partitions of this run; None before the first one is there."""
        return self.seconds * (self.partitions - self.landed) / self.landed if self.landed else None

    @property
    def note(self) -> str:
        """Calls, credits and rate, in a few words; and the answers for which nobody was asked."""
        asked = f"{self.calls:,} calls, {credits_text(self.credits)} credits, {self.calls_a_minute:,.0f} calls/min"
        if not self.computed:
            return asked
        return f"{self.computed:,} from the engine, {asked if self.calls else 'no calls'}"

    def __str__(self) -> str:
        left = "" if self.seconds_left is None else f", {_span(self.seconds_left)} left"
        return f"{self.landed:,} of {self.partitions:,} partitions, {self.note}{left}"


class Teller:
    """Says how far a run is, every few seconds and not oftener."""

    def __init__(self, say: Callable[[str], None], progress: Progress) -> None:
        self.progress = progress
        self._say = say
        self._said = time.monotonic()

    def add(self, one: PartitionResult) -> None:
        """Counts a partition; says so where something was said long ago."""
        self.progress.add(one)
        if time.monotonic() - self._said >= _EVERY_SECONDS:
            self._said = time.monotonic()
            self._say(str(self.progress))


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min" if minutes else f"{rest} s"
