"""Prometheus metrics of a home, read from lake and ledger at each scrape.

Every value is read from the home, because a counter in a run's process would end with the run. Credits are hundredths
of a credit. No label contains a token, an address or a key.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from math import inf
from pathlib import Path
from threading import Lock
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holderlake.assets import STREAMS
from holderlake.core.contract.tables import FAMILY_TABLES, MISSING_CONTENT
from holderlake.core.contract.times import parse_partition, utc_now
from holderlake.core.ingest.lacking import lacking
from holderlake.core.ingest.stream import left_out_by_settings
from holderlake.core.lake.manifests import FAILURES, Manifest
from holderlake.core.storage.atomic_files import write_whole
from holderlake.core.storage.layout import place_of
from holderlake.core.workspace import Workspace

Part = Callable[[], Iterator[Metric]]
"""A function that yields one group of metrics, for example those of the ledger."""

_log = logging.getLogger(__name__)
_PREFIX: Final = "holderlake_pipeline_"
_REST_FACTOR: Final = 20
"""Shortest time between two readings of a group of metrics, as a multiple of the time that a reading takes."""


def gauge(name: str, about: str, labels: Sequence[str] = ()) -> GaugeMetricFamily:
    """Return a gauge without values, named ``holderlake_pipeline_`` and ``name``; ``about`` is its help text."""
    return GaugeMetricFamily(f"{_PREFIX}{name}", about, labels=labels)


def all_metrics(parts: dict[str, Part], clock: Callable[[], float] = time.monotonic) -> CollectorRegistry:
    """Return a Prometheus registry with the metrics of all parts, which are given by name.

    A part that cannot be read is logged and left out, and the metric ``holderlake_pipeline_up`` is 0 for it.
    """
    registry = CollectorRegistry()
    registry.register(_Parts(parts, clock))
    return registry


def write_textfile(registry: CollectorRegistry, path: Path) -> None:
    """Replace a file by the metrics as text, for the textfile collector of Prometheus' node exporter."""
    write_whole(path, generate_latest(registry))


class HomeMetrics:
    """The metrics of a home's lake, ledger and disk."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def parts(self) -> dict[str, Part]:
        """Return the functions that yield the metrics, by name: lake, ledger, disk."""
        return {"lake": self._lake, "ledger": self._ledger, "disk": self._disk}

    def _lake(self) -> Iterator[Metric]:
        newest_instant = gauge(
            "newest_instant_timestamp_seconds",
            "Newest as-of instant of a chain's table; 0 if a watched chain has none",
            ["chain", "table"],
        )
        rows = gauge("newest_rows", "Rows of a chain's table at its newest as-of instant", ["chain", "table"])
        failures = gauge("newest_failures", "Failed requests of a chain at its newest instant", ["chain", "family"])
        missing = gauge(
            "newest_missing_content",
            "Answers of a chain at its newest instant that lack requested content",
            ["chain", "family"],
        )
        lacks = gauge(
            "newest_lacking", "Subjects that a chain's newest instant was asked for and lacks", ["chain", "family"]
        )
        newest = self._newest()
        for (family, chain), manifest in sorted(newest.items()):
            for table in FAMILY_TABLES[family]:
                seconds = 0.0 if manifest is None else manifest.as_of.replace(tzinfo=UTC).timestamp()
                newest_instant.add_metric([chain, table], seconds)
                if manifest is not None:
                    rows.add_metric([chain, table], manifest.tables[table].rows)
            if manifest is not None:
                failures.add_metric([chain, family], manifest.tables[FAILURES].rows)
                failed = self._workspace.lake.rows(manifest, FAILURES)["code"].to_pylist() if manifest.failures else []
                missing.add_metric([chain, family], failed.count(MISSING_CONTENT))
                lacks.add_metric([chain, family], len(lacking(self._workspace.lake, manifest)))
        yield from (newest_instant, rows, failures, missing, lacks)

    def _newest(self) -> dict[tuple[str, str], Manifest | None]:
        """Return the manifest of the newest partition, by family and watched chain.

        For families by token or chain the value is None if the chain has no partition.
        """
        lake, watched = self._workspace.lake, self._workspace.settings.watchlist
        instants: dict[tuple[str, str], datetime] = {}
        # in a folder by names only: reading each manifest of several years takes minutes
        every = (
            map(place_of, lake.manifest_paths()) if lake.is_local else (manifest.place for manifest in lake.manifests())
        )
        for family, chain, timestamp in every:
            if chain in watched and family in FAMILY_TABLES:
                as_of = parse_partition(timestamp)
                instants[family, chain] = max(instants.get((family, chain), as_of), as_of)
        newest: dict[tuple[str, str], Manifest | None] = {
            (stream.name, chain): None
            for stream in STREAMS
            if stream.by in ("token", "chain") and left_out_by_settings(self._workspace.settings, stream.name) is None
            for chain in watched
        }
        return newest | {place: lake.manifest(*place, as_of) for place, as_of in instants.items()}

    def _ledger(self) -> Iterator[Metric]:
        ledger = self._workspace.ledger
        totals, credits_left = ledger.totals(), ledger.left_this_month()
        if credits_left is not None:
            yield _gauge_of(
                "credits_left_hundredths", "Credits left this month, by ceiling and provider's balance", credits_left
            )
        yield _gauge_of("credits_spent_hundredths", "Credits spent since the last renewal", totals.spent)
        yield _gauge_of(
            "credits_reserved_hundredths", "Credits of calls without a known outcome this month", totals.reserved
        )
        yield _gauge_of(
            "credits_unexplained_hundredths", "Credits charged for calls of other clients", totals.unexplained
        )
        yield _gauge_of("renewal_timestamp_seconds", "Day of the next renewal", _seconds(totals.renewal))
        ceilings = gauge("ceiling_left_hundredths", "Credits left below a ceiling of the settings", ["ceiling"])
        for ceiling in totals.ceilings:
            if ceiling.left is not None:
                ceilings.add_metric([ceiling.name], ceiling.left)
        calls = gauge("calls_today", "Calls of this day (UTC) that were charged or may be", ["endpoint"])
        uncharged = gauge("uncharged_calls_today", "Calls of this day (UTC) that failed at no cost", ["endpoint"])
        credits = gauge("credits_today_hundredths", "Credits spent and reserved this day (UTC)", ["endpoint"])
        for row in ledger.report("endpoint", utc_now().date()):
            calls.add_metric([row.name], row.calls)
            uncharged.add_metric([row.name], row.uncharged_calls)
            credits.add_metric([row.name], row.spent + row.reserved)
        yield from (ceilings, calls, uncharged, credits)

    def _disk(self) -> Iterator[Metric]:
        usage = shutil.disk_usage(self._workspace.settings.home)
        yield _gauge_of("disk_free_bytes", "Free bytes of the disk that the home is on", usage.free)
        yield _gauge_of("disk_size_bytes", "Size of the disk that the home is on", usage.total)


class _Parts(Collector):
    """Prometheus collector of the metrics of all parts. Concurrent scrapes wait for each other.

    A part whose reading is slow is read less often than it is scraped, so that reading takes at most 1/20 of the time.
    """

    def __init__(self, parts: dict[str, Part], clock: Callable[[], float]) -> None:
        self._parts = parts
        self._clock = clock
        self._lock = Lock()
        self._read: dict[str, tuple[float, float, list[Metric]]] = {}

    def collect(self) -> Iterator[Metric]:
        up = gauge("up", "1 if a part of the metrics could be read, else 0", ["part"])
        seconds = gauge("read_seconds", "Seconds that reading a part of the metrics took", ["part"])
        with self._lock:
            for name in self._parts:
                try:
                    took, metrics = self._metrics(name)
                except Exception as error:  # a scrape during an outage still has all other parts
                    _log.warning("no metrics of the %s: %s", name, error)
                    up.add_metric([name], 0)
                else:
                    up.add_metric([name], 1)
                    seconds.add_metric([name], took)
                    yield from metrics
        yield from (up, seconds)

    def _metrics(self, name: str) -> tuple[float, list[Metric]]:
        """Return the seconds that the last reading of a part took, and its metrics; read them again if they are old."""
        began = self._clock()
        ended, took, metrics = self._read.get(name, (-inf, 0.0, []))
        if began - ended < _REST_FACTOR * took:
            return took, metrics
        metrics = list(self._parts[name]())
        ended = self._clock()
        self._read[name] = ended, ended - began, metrics
        return ended - began, metrics

    def describe(self) -> Iterator[Metric]:
        """Return no metrics: the registry calls this method at registration, when nothing should be read yet."""
        return iter(())


def _gauge_of(name: str, about: str, value: float) -> Metric:
    metric = gauge(name, about)
    metric.add_metric([], value)
    return metric


def _seconds(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
