"""Prometheus metrics; each service has its own registry.

Several processes of one service share their counters through files in a folder (the multiprocess mode of
prometheus_client). The supervisor names the folder in the environment. So any process can answer a scrape with the sums
of all processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the path of the shared folder. It must be set before this module is imported."""

_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


disable_created_metrics()  # type: ignore[no-untyped-call]  # unused, and a third of all samples


class Metrics:
    """The metrics of one service. Label values come from the code, never from callers."""

    def __init__(self) -> None:
        self._folder = os.environ.get(FOLDER_VARIABLE)
        self._registry = CollectorRegistry()
        self._watched: list[tuple[Gauge, Callable[[], float]]] = []
        self._requests = self._counter("requests", "Requests answered", "route", "method", "status", "code")
        self._seconds = Histogram(
            "holderlake_request_seconds",
            "Seconds from a request's headers to the end of its answer",
            ["route"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.in_progress = self._gauge("requests_in_progress", "Requests that are being answered")
        self._charged = self._counter("charged_hundredths", "Credits charged, in hundredths", "endpoint")
        self._cache = self._counter("cache_lookups", "Answers looked for in the cache", "outcome")

    def request(self, route: str, method: str, status: int | None, code: str | None, seconds: float) -> None:
        """Count a request that has ended. ``seconds`` is its duration.

        ``status`` is None if no answer was started. ``code`` is the contract's error code, None without an error.
        """
        self._requests.labels(route, method, status or "none", code or "").inc()
        self._seconds.labels(route).observe(seconds)
        self._refresh()

    def charged(self, endpoint: str, hundredths: int) -> None:
        """Add the cost of a charged answer, in hundredths of a credit."""
        self._charged.labels(endpoint).inc(hundredths)

    def cache(self, outcome: Literal["hit", "miss", "shared"]) -> None:
        """Count a cache lookup; ``shared`` means that the answer was already being computed for another request."""
        self._cache.labels(outcome).inc()

    def watch(self, name: str, read: Callable[[], float], about: str) -> None:
        """Publish the result of ``read`` after each request as the metric ``holderlake_<name>``."""
        self._watched.append((self._gauge(name, about), read))

    def text(self) -> Callable[[], bytes]:
        """Update the watched metrics. Return a function that writes all metrics as text and may run in a thread."""
        self._refresh()
        registry = self._registry
        if self._folder is not None:
            registry = CollectorRegistry()
            MultiProcessCollector(registry, self._folder)  # type: ignore[no-untyped-call]
        return lambda: generate_latest(registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"holderlake_{name}", about, labels, registry=self._registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(f"holderlake_{name}", about, registry=self._registry, multiprocess_mode="livesum")

    def _refresh(self) -> None:
        for gauge, read in self._watched:
            gauge.set(read())


def forget_process(folder: str, pid: int) -> None:
    """Delete the gauges of an ended process from the shared folder. Its counters stay in the sums."""
    mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]
