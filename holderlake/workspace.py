"""A run's workspace: the stores under ``HOLDERLAKE_HOME``, and the provider.

The caller gives an ``Endpoint`` (of the network or of the embedded service), so this module imports no service. With an
embedded provider the caller may set its ``engine`` too.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import SecretStr

from holderlake.archive.archive import AnswerArchive
from holderlake.contract.times import utc_now
from holderlake.http.client import MEGABYTE
from holderlake.lake.lake import Lake
from holderlake.provider.client import CallOptions, ProviderClient
from holderlake.provider.fetcher import Provider
from holderlake.provider.ledger.ledger import CreditLedger
from holderlake.provider.ledger.restore import restore_if_older
from holderlake.provider.local_engine import Engine
from holderlake.provider.node_imports import DayReport
from holderlake.provider.plan_limits import PlanLimits
from holderlake.settings import Settings
from holderlake.warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class Endpoint:
    """Address and key of a provider. ``provider_id`` names it in lake and archive."""

    base_url: str
    api_key: SecretStr | None
    provider_id: str


class Workspace:
    """Settings, lake, warehouse, ledger and archive of one home, opened when first used."""

    def __init__(self, settings: Settings, endpoint: Callable[[], Endpoint]) -> None:
        self.settings = settings
        self._endpoint = endpoint
        self.on_result: Callable[[Any], None] = lambda _: None
        """Called with the result of each finished partition; a command with a progress bar sets it."""
        self.skipped: dict[str, str] = {}
        """Streams that the key's plan does not include, with the provider's reason; commands print them at the end."""
        self.on_check: Callable[[Any], None] = lambda _: None
        """Called with each asset check that failed outside of a check's own step."""
        self.now = utc_now
        """The clock (UTC) that decides whether an instant has passed and whether it is live."""
        self.import_day: Callable[[str, str], DayReport] | None = None
        """Imports a chain's day (YYYY-MM-DD) from its nodes into the engine's store, if there is an engine."""
        self.repair: Callable[..., None] | None = None
        """Repairs damaged partitions of chains and timestamps; set by the definitions of Dagster's runs."""
        self.prepared_run = ""
        """The run that checked free space and repaired partitions; its later steps do not repeat that."""
        self.engine: Engine | None = None
        """The provider's engine if it runs in this process; it answers without a call."""

    @property
    def provider_id(self) -> str:
        """The name of the provider."""
        return self._endpoint().provider_id

    @cached_property
    def lake(self) -> Lake:
        return Lake(self.settings.lake)

    @cached_property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.settings.warehouse)

    @cached_property
    def ledger(self) -> CreditLedger:
        budget = self.settings.budget
        ledger = CreditLedger(
            self.settings.ledger,
            per_run=budget.per_run,
            per_day=budget.per_day,
            per_month=budget.per_month,
            renewal_day=budget.renewal_day,
        )
        restore_if_older(ledger, self.archive, self.settings.ledger)
        return ledger

    @cached_property
    def archive(self) -> AnswerArchive:
        return AnswerArchive(self.settings.archive)

    def check(self) -> None:
        """Raise ``SettingsError`` without a provider, and ``LakeError`` if the lake is another provider's."""
        self.lake.check_provider(self.provider_id)

    def close(self) -> None:
        """Close the ledger if it was opened."""
        if "ledger" in self.__dict__:
            self.ledger.close()
            del self.__dict__["ledger"]

    def plan_limits(self) -> PlanLimits:
        """Open the list of endpoints that the key's plan excludes. Raises ``SettingsError`` without a provider."""
        endpoint = self._endpoint()
        key = endpoint.api_key.get_secret_value() if endpoint.api_key else None
        return PlanLimits(self.settings.ledger, endpoint.provider_id, key)

    @asynccontextmanager
    async def provider(self, run_id: str) -> AsyncIterator[Provider]:
        """Connect to the provider for one run; its calls are in the ledger and its answers in the archive."""
        endpoint = self._endpoint()
        if endpoint.api_key is not None:
            self.ledger.use_account(endpoint.provider_id, endpoint.api_key.get_secret_value())
        chosen = self.settings.provider
        async with ProviderClient(
            endpoint.base_url,
            endpoint.api_key,
            rate_per_minute=chosen.rate_per_minute,
            timeout=chosen.timeout_seconds,
            attempts=chosen.attempts,
            concurrency=chosen.concurrency,
            options=CallOptions(
                chosen.rate_window_seconds,
                chosen.charged_repeats,
                round(chosen.answer_megabytes * MEGABYTE),
                self.settings.http_transport,
            ),
        ) as client:
            with _few_collections(), closing(self.plan_limits()) as plan_limits:
                yield Provider(client, self.ledger, self.archive, endpoint.provider_id, run_id, plan_limits)


@contextmanager
def _few_collections() -> Iterator[None]:
    """Make the garbage collector run rarely: decoded answers have hardly any cycles, and it took 12 % of the CPU.

    What is still frozen when the interpreter exits is never freed, and DuckDB's binding then prints a list of leaks.
    """
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    try:
        yield
    finally:
        gc.unfreeze()
