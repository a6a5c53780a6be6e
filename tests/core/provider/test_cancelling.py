"""Calls that are cancelled before they are sent release their credits."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.contract.requests import ChainsRequest
from holderlake.core.provider.client import ProviderClient
from holderlake.core.provider.fetcher import Fetcher
from holderlake.core.provider.ledger.ledger import CreditLedger

NOBODY = "http://127.0.0.1:9"


@contextmanager
def busy(path: Path) -> Iterator[None]:
    """Lock the ledger from another connection."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@pytest.mark.anyio
@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_call_cancelled_while_reserving_releases_its_credits(tmp_path: Path, times: int) -> None:
    """Several partitions that fail cancel each other's calls more than once."""
    with closing(CreditLedger(tmp_path / "ledger.sqlite")) as ledger:
        async with ProviderClient(NOBODY, None) as client:
            provider = Fetcher(client, ledger, AnswerArchive(tmp_path / "archive"), "tests", "run")
            with busy(tmp_path / "ledger.sqlite"):
                call = asyncio.create_task(provider.fetch(ChainsRequest(), "today"))
                await asyncio.sleep(0.1)  # it waits for the ledger
                for _ in range(times):
                    call.cancel()
                    await asyncio.sleep(0.01)
            with pytest.raises(asyncio.CancelledError):
                await call
        assert ledger.unsettled() == []
        assert [row.uncharged_calls for row in ledger.report("run")] == [1]
