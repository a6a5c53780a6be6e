"""Fixtures of tests that disturb a backfill: the service, and the same backfill without a disturbance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.backfills import Backfill, Service, away_from_midnight, service_of


@pytest.fixture(scope="module")
def service(sample_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The real service in a process of its own."""
    away_from_midnight()
    with service_of(sample_folder, tmp_path_factory.mktemp("accounts") / "accounts.sqlite") as running:
        yield running


@pytest.fixture(scope="module")
def undisturbed(request: pytest.FixtureRequest, service: Service, tmp_path_factory: pytest.TempPathFactory) -> Backfill:
    """The backfill of the module's ``INSTANTS`` by one host with its own lake, left alone."""
    backfill = Backfill(tmp_path_factory.mktemp("undisturbed") / "home", service.customer(), request.module.INSTANTS)
    backfill.finish()
    return backfill
