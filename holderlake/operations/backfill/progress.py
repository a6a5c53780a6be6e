"""Progress of a running backfill: partitions, calls, credits, calls a minute and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from holderlake.core.contract.prices import credits_text
from holderlake.core.ingest.stream import PartitionResult
from holderlake.core.units import counted

_EVERY_SECONDS: Final = 15.0


@dataclass
class Progress:
    """Counts of a running backfill of ``partitions`` partitions, of which ``finished`` are finished.

    ``calls`` were sent so far, for ``credits`` hundredths of a credit. ``computed`` counts answers of the local engine.
    ``began`` is the value of ``time.monotonic()`` at the start, in seconds.
    """

    partitions: int
    finished: int = 0
    calls: int = 0
    credits: int = 0
    computed: int = 0
    began: float = field(default_factory=time.monotonic)

    def add(self, result: PartitionResult) -> None:
        """Add the result of a finished partition to the counts."""
        self.finished += 1
        self.calls += result.calls
        self.credits += result.credits
        self.computed += result.computed

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def calls_a_minute(self) -> float:
        return 60 * self.calls / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the end, from the finished partitions; None before the first one."""
        return self.seconds * (self.partitions - self.finished) / self.finished if self.finished else None

    @property
    def note(self) -> str:
        """A text with the numbers of calls, credits, calls a minute, and answers of the local engine, if any."""
        calls = (
            f"{counted(self.calls, 'call')}, {credits_text(self.credits)} credits, {self.calls_a_minute:,.0f} calls/min"
        )
        if not self.computed:
            return calls
        return f"{self.computed:,} from the engine, {calls if self.calls else 'no calls'}"

    def __str__(self) -> str:
        time_left = "" if self.seconds_left is None else f", {_span(self.seconds_left)} left"
        return f"{self.finished:,} of {counted(self.partitions, 'partition')}, {self.note}{time_left}"


class ProgressLog:
    """Logs the progress of a backfill, at most every 15 seconds."""

    def __init__(self, log: Callable[[str], None], progress: Progress) -> None:
        self.progress = progress
        self._log = log
        self._logged_at = time.monotonic()

    def add(self, result: PartitionResult) -> None:
        """Add the result of a finished partition, and log the progress if the last message is 15 seconds old."""
        self.progress.add(result)
        if time.monotonic() - self._logged_at >= _EVERY_SECONDS:
            self._logged_at = time.monotonic()
            self._log(str(self.progress))


def _span(seconds: float) -> str:
    minutes, remaining_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min" if minutes else f"{remaining_seconds} s"
