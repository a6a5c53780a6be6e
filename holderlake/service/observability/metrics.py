"""Prometheus metrics; each service has its own registry.

Several processes of one service share their counters through files in a folder (the multiprocess mode of
prometheus_client). The supervisor names the folder in the environment. So any process can answer a scrape with the sums
of all processes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the path of the shared folder. It must be set before this module is imported."""

_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_REFRESH_SECONDS: Final = 1.0


@dataclass
class _Watched:
    """A metric whose value is read by the function ``read``. ``last`` is the value that was read last."""

    read: Callable[[], float]
    into: Gauge | Counter
    last_value: float = 0.0

    def refresh(self) -> bool:
        """Read the value into its metric. Return whether it has changed."""
        value = float(self.read())
        grown, self.last_value = value - self.last_value, value
        if isinstance(self.into, Gauge):
            self.into.set(value)
        elif grown > 0:
            self.into.inc(grown)
        return grown != 0


class Metrics:
    """The metrics of one service. Label values come from the code, never from callers."""

    def __init__(self) -> None:
        self._folder = os.environ.get(FOLDER_VARIABLE)
        self._registry = CollectorRegistry()
        self._watched: dict[str, _Watched] = {}
        self._timer: asyncio.TimerHandle | None = None
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
        self._refresh_soon()

    def charged(self, endpoint: str, hundredths: int) -> None:
        """Add the cost of a charged answer, in hundredths of a credit."""
        self._charged.labels(endpoint).inc(hundredths)

    def cache(self, outcome: Literal["hit", "miss", "shared"]) -> None:
        """Count a cache lookup; ``shared`` means that the answer was already being computed for another request."""
        self._cache.labels(outcome).inc()

    def watch(self, name: str, read: Callable[[], float], about: str = "", *, total: bool = False) -> None:
        """Publish the result of ``read`` as the metric ``holderlake_<name>``: a counter if ``total``, else a gauge."""
        self._watched[name] = _Watched(read, self._counter(name, about) if total else self._gauge(name, about))

    def text(self) -> Callable[[], bytes]:
        """Update the watched metrics. Return a function that writes all metrics as text and may run in a thread."""
        self._refresh()
        registry = self._registry
        if self._folder is not None:
            registry = CollectorRegistry()
            MultiProcessCollector(registry, self._folder)  # type: ignore[no-untyped-call]
        return lambda: generate_latest(_WithoutCreated(registry))

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"holderlake_{name}", about, labels, registry=self._registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(f"holderlake_{name}", about, registry=self._registry, multiprocess_mode="livesum")

    def _refresh_soon(self) -> None:
        """Write this process's watched values to its metric files every second, until no value changes.

        Another process of the service may answer the scrape, and reads the files.
        """
        if self._folder is not None and self._watched and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_REFRESH_SECONDS, self._refresh_later)

    def _refresh_later(self) -> None:
        self._timer = None
        if self._refresh():
            self._refresh_soon()

    def _refresh(self) -> bool:
        """Update the watched metrics. Return whether a value has changed."""
        changes = [metric.refresh() for metric in self._watched.values()]
        return any(changes)


class _WithoutCreated(Collector):
    """Collector of a registry's metrics without the unused samples ``*_created``, which are a third of all samples."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


def forget_process(folder: str, pid: int) -> None:
    """Delete the gauges of an ended process from the shared folder. Its counters stay in the sums."""
    mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]
