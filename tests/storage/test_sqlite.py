"""SQLite files of a home: who can read them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holderlake.provider.ledger.ledger import CreditLedger
from holderlake.service.billing.keys import KeyStore


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_ledger_and_keys_cannot_be_read_by_other_users(tmp_path: Path) -> None:
    with CreditLedger(tmp_path / "ledger.sqlite"), KeyStore(tmp_path / "keys.sqlite") as keys:
        keys.create("a caller", 100)
        files = sorted(tmp_path.rglob("*.sqlite*"))
        assert {"ledger.sqlite", "ledger.sqlite-wal", "keys.sqlite"} <= {file.name for file in files}
        assert [file.name for file in files if file.stat().st_mode & 0o007] == []
