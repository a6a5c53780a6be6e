"""Workspace of a run: lake, warehouse, ledger and archive under ``HOLDERLAKE_HOME``, and the provider.

The provider is one elsewhere, or the part ``source`` in this process. Each part is imported when it is opened: a
command that reads the ledger alone takes half of the time.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic import SecretStr

from holderlake.core.contract.times import to_unix, utc_now
from holderlake.core.registry import Kind
from holderlake.core.settings import Settings, SettingsError

if TYPE_CHECKING:
    from holderlake.core.archive.archive import AnswerArchive
    from holderlake.core.lake.lake import Lake, Manifest
    from holderlake.core.provider.fetcher import Fetcher
    from holderlake.core.provider.ledger.ledger import CreditLedger
    from holderlake.core.provider.plan_limits import PlanLimits
    from holderlake.core.storage.state import Where
    from holderlake.core.warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class Endpoint:
    """Base URL and API key of a provider. ``provider_id`` is the provider's name in lake and archive."""

    base_url: str
    api_key: SecretStr | None
    provider_id: str


class StoreChanges(Protocol):
    """The numbered changes of the user's own store."""

    def generation(self) -> int:
        """Return the number of the latest change."""

    def first_change_since(self, generation: int) -> int | None:
        """Return the earliest unix second as of which answers changed after a change; None if nothing changed."""


class Filler(Protocol):
    """A provider in this process that fills partitions itself, many at once, without calls and JSON.

    Its method is that of ``ingest.stream.Filling``, whose types import this module.
    """

    @property
    def provider_id(self) -> str:
        """The provider's name in archive and lake."""

    @property
    def rules(self) -> Mapping[str, Any]:
        """The thresholds that all maps follow, as plain data; equal to the JSON of ``GET /v0/x/rules``."""

    @property
    def endpoints(self) -> frozenset[str]:
        """The endpoints whose answers it computes. Streams of other endpoints are requested."""


@dataclass(frozen=True)
class OwnStore:
    """What a provider in this process gives besides its endpoint.

    ``filler`` returns what fills partitions without calls; None if answers are requested over HTTP. ``transfers``
    returns the store's transfers for the warehouse; None without a store. ``changes`` returns the changes of the
    user's own store; None if another provider answers.
    """

    filler: Callable[[], Filler | None] = lambda: None
    transfers: Callable[[], Any] = lambda: None
    changes: Callable[[], StoreChanges | None] = lambda: None


@dataclass(frozen=True)
class LocalSource:
    """A provider in this process. ``watching`` returns the settings with the tokens that it has, if they name none.

    ``endpoint`` starts it at its first call, ``provider_id`` does not. ``store`` may have transfers although another
    provider answers.
    """

    watching: Callable[[], Settings]
    provider_id: Callable[[], str]
    endpoint: Callable[[], Endpoint]
    store: OwnStore


class Bucket(Protocol):
    """A module that opens the lake and the archive at ``lake.url``."""

    def lake_of(self, settings: Settings) -> Lake:
        """Return the lake."""

    def archive_of(self, settings: Settings, lake: Lake) -> AnswerArchive:
        """Return the archive next to the lake."""

    def copy_of(self, settings: Settings) -> Lake:
        """Return a copy of the lake in a folder of this host, which is brought up to date."""


SOURCE: Final[Kind[Callable[[Settings], LocalSource]]] = Kind("source")
"""A provider in this process, for settings without ``provider.url``."""
BUCKET: Final[Kind[Bucket]] = Kind("bucket")
LEDGER_OPENED: Final[Kind[Callable[[CreditLedger, AnswerArchive, Settings], None]]] = Kind("ledger_opened")
"""What is called when a workspace opens its ledger."""


class Workspace:
    """Settings, lake, warehouse, ledger and archive of one home folder, each opened at its first use.

    ``provider_id`` returns the name of a provider in this process, without starting it. ``lake``, ``archive`` and the
    file ``warehouse`` replace those of the settings. ``now`` returns the time (naive UTC); it decides which instants
    have passed and a call's day.
    """

    def __init__(
        self,
        settings: Settings,
        endpoint: Callable[[], Endpoint],
        *,
        provider_id: Callable[[], str] | None = None,
        store: OwnStore | None = None,
        lake: Lake | None = None,
        archive: AnswerArchive | None = None,
        warehouse: Path | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.settings = settings
        self._endpoint = endpoint
        self._is_in_process = provider_id is not None
        self._provider_id = provider_id or (lambda: endpoint().provider_id)
        self.now = now
        store = store or OwnStore()
        self._filler, self._transfers, self._changes = store.filler, store.transfers, store.changes
        self._lake, self._archive = lake, archive
        self._warehouse = warehouse or settings.warehouse
        self._observers: list[Callable[[Any], None]] = []

    @contextmanager
    def observed(self, observer: Callable[[Any], None]) -> Iterator[None]:
        """Call ``observer`` during the ``with`` block with each event of the runs in this process.

        Events are finished partitions (``PartitionResult``), streams that are not fetched (``LeftOut``), and failed
        checks that are no steps of their own.
        """
        self._observers.append(observer)
        try:
            yield
        finally:
            self._observers.remove(observer)

    def report(self, event: Any) -> None:
        """Pass an event of a run to the observers."""
        for observer in self._observers:
            observer(event)

    @property
    def store_change(self) -> int | None:
        """The number of the latest change of the user's own store; None if another provider answers."""
        changes = self._changes()
        return None if changes is None else changes.generation()

    def is_stale(self, manifest: Manifest) -> bool:
        """Return whether the own store changed, as of the partition's instant, after its rows were computed."""
        changes = self._changes() if manifest.store_change is not None else None
        if changes is None or manifest.store_change is None:
            return False
        first_time = changes.first_change_since(manifest.store_change)
        return first_time is not None and first_time <= to_unix(manifest.as_of)

    def stale_partitions(self) -> list[Manifest]:
        """Return the partitions that were computed before a change of the own store as of their instants."""
        return [] if self._changes() is None else [*filter(self.is_stale, self.lake.manifests())]

    @property
    def provider_id(self) -> str:
        """The provider's name in lake and archive."""
        return self._provider_id()

    @cached_property
    def filler(self) -> Filler | None:
        """What fills partitions without calls; None if answers are requested over HTTP."""
        return self._filler()

    @cached_property
    def lake(self) -> Lake:
        return open_lake(self.settings) if self._lake is None else self._lake

    @cached_property
    def warehouse(self) -> Warehouse:
        from holderlake.core.warehouse.warehouse import Warehouse

        return Warehouse(self._warehouse, self._transfers, self._spending, self.settings.sql)

    @cached_property
    def ledger(self) -> CreditLedger:
        from holderlake.core.provider.ledger.ledger import CreditLedger

        budget = self.settings.budget
        ledger = CreditLedger(
            self.state(self.settings.ledger),
            per_run=budget.per_run,
            per_day=budget.per_day,
            per_month=budget.per_month,
            renewal_day=budget.renewal_day,
            now=self.now,
        )
        for ledger_opened in LEDGER_OPENED.parts():
            ledger_opened(ledger, self.archive, self.settings)
        return ledger

    def _spending(self) -> CreditLedger | None:
        """Return the ledger, unless none exists yet."""
        return self.ledger if self.settings.state.url or self.settings.ledger.exists() else None

    @cached_property
    def archive(self) -> AnswerArchive:
        if self._archive is not None:
            return self._archive
        return open_archive(self.settings, None if self._lake is None and self.settings.lake.url is None else self.lake)

    def state(self, file: Path) -> Where:
        """Return the place of a part of the state: a SQLite ``file`` of the home, or the shared PostgreSQL."""
        return state_of(self.settings, file)

    def check(self) -> None:
        """Raise ``SettingsError`` if there is no provider, or ``lake.url`` is set and the home's archive was not moved.

        Raise ``LakeError`` if the lake has another provider's data.
        """
        if not self.lake.is_local and self.settings.archive.exists() and not self._moved_mark.exists():
            raise SettingsError(
                f"lake.url is set, and the answers in {self.settings.archive} are not in the bucket, so they would be "
                "paid again: run 'holderlake lake move', which copies lake and archive"
            )
        self.lake.check_provider(self.provider_id)

    def note_moved(self) -> None:
        """Record, in an empty file, that the home's local archive was copied to the bucket."""
        self._moved_mark.touch()

    @property
    def _moved_mark(self) -> Path:
        return self.settings.bucket_folder(self.settings.lake.url or "") / "moved"

    def close(self) -> None:
        """Close the ledger if it is open."""
        if "ledger" in self.__dict__:
            self.ledger.close()
            del self.__dict__["ledger"]

    def plan_limits(self) -> PlanLimits:
        """Open the list of endpoints that the API key's plan excludes. Raises ``SettingsError`` without a provider."""
        from holderlake.core.provider.plan_limits import PlanLimits

        key = None if self._is_in_process else self._endpoint().api_key
        secret = key.get_secret_value() if key else None
        return PlanLimits(self.state(self.settings.ledger), self.provider_id, secret)

    @asynccontextmanager
    async def fetcher(self, run_id: str) -> AsyncIterator[Fetcher]:
        """Connect to the provider for one run. Calls are recorded in the ledger, and answers in the archive."""
        from holderlake.core.http import MEGABYTE
        from holderlake.core.provider.attempts import CallOptions
        from holderlake.core.provider.client import ProviderClient
        from holderlake.core.provider.fetcher import Fetcher

        endpoint = self._endpoint()
        if endpoint.api_key is not None:
            self.ledger.use_account(endpoint.provider_id, endpoint.api_key.get_secret_value())
        provider_settings = self.settings.provider
        async with ProviderClient(
            endpoint.base_url,
            endpoint.api_key,
            rate_per_minute=provider_settings.rate_per_minute,
            timeout=provider_settings.timeout_seconds,
            attempts=provider_settings.attempts,
            concurrency=provider_settings.concurrency,
            options=CallOptions(
                provider_settings.rate_window_seconds,
                provider_settings.charged_repeats,
                round(provider_settings.answer_megabytes * MEGABYTE),
            ),
        ) as client:
            with _few_collections(), closing(self.plan_limits()) as plan_limits:
                yield Fetcher(
                    client,
                    self.ledger,
                    self.archive,
                    endpoint.provider_id,
                    run_id,
                    plan_limits,
                    provider_settings.is_own_store,
                )


def make_workspace(settings: Settings, lake: Lake | None = None, warehouse: Path | None = None) -> Workspace:
    """Return the workspace of the settings.

    Its provider is the one at ``provider.url``; without a URL, the part ``source``, in this process. ``lake`` and the
    file ``warehouse`` replace those of the settings.
    """
    local = _local_source(settings)
    if settings.provider.url is not None or local is None:
        return Workspace(
            settings, lambda: _remote(settings), store=local.store if local else None, lake=lake, warehouse=warehouse
        )
    return Workspace(
        local.watching(),
        local.endpoint,
        provider_id=local.provider_id,
        store=local.store,
        lake=lake,
        warehouse=warehouse,
    )


def reading_workspace(settings: Settings) -> Workspace:
    """Return a workspace for commands that only read the home folder: no provider starts, and the watchlist stays."""
    local = _local_source(settings)
    return Workspace(settings, lambda: _remote(settings), store=local.store if local else None)


def _local_source(settings: Settings) -> LocalSource | None:
    return next((source(settings) for source in SOURCE.parts()), None)


def _remote(settings: Settings) -> Endpoint:
    url, key = settings.provider.url, settings.key()
    if url is None:
        raise SettingsError("provider.url is not set; set HOLDERLAKE_PROVIDER__URL, or provider.url in holderlake.toml")
    if key is None:
        raise SettingsError(
            "provider.url is set, but no API key; set HOLDERLAKE_API_KEY, or set HOLDERLAKE_API_KEY_FILE to the path "
            "of a file with the key"
        )
    return Endpoint(url, key, url.rstrip("/"))


def state_of(settings: Settings, file: Path) -> Where:
    """Return the place of a part of the state: a SQLite ``file`` of the home, or the PostgreSQL that hosts share."""
    state_settings = settings.state
    if state_settings.url is None:
        return file
    from holderlake.core.storage.postgresql import Postgres

    return Postgres(state_settings.url, file, state_settings.schema_name, state_settings.lease_seconds)


def open_lake(settings: Settings) -> Lake:
    """Open the lake of the settings: in the home folder, or at ``lake.url``."""
    from holderlake.core.lake.lake import Lake

    return Lake(settings.lake_folder) if settings.lake.url is None else _bucket().lake_of(settings)


def open_archive(settings: Settings, lake: Lake | None) -> AnswerArchive:
    """Open the archive of the settings: in the home folder (with None too), or next to a lake elsewhere."""
    from holderlake.core.archive.archive import AnswerArchive

    return AnswerArchive(settings.archive) if lake is None or lake.is_local else _bucket().archive_of(settings, lake)


def local_lake(settings: Settings) -> Lake:
    """Return the lake of the settings, or an up-to-date copy in a folder if it lies elsewhere."""
    from holderlake.core.lake.lake import Lake

    return Lake(settings.lake_folder) if settings.lake.url is None else _bucket().copy_of(settings)


def _bucket() -> Bucket:
    if not BUCKET.parts():
        raise SettingsError("lake.url is set, but no part opens buckets: remove lake.url")
    return BUCKET.parts()[0]


@contextmanager
def _few_collections() -> Iterator[None]:
    """Make the garbage collector run rarely in the block: it took 12 % of the CPU, and answers have hardly any cycles.

    The end of the block unfreezes all objects. Objects that are frozen at exit are never freed, and DuckDB's binding
    then prints a list of leaks.
    """
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    try:
        yield
    finally:
        gc.unfreeze()
