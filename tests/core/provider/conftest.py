"""Ledgers in SQLite and PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from holderlake.core.storage.postgresql import Postgres
from holderlake.core.storage.state import Where

_NUMBERS = count(1)


@pytest.fixture(params=["sqlite", "postgresql"])
def new_where(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Where]:
    """Return a function that makes a place for a new ledger, of each kind."""
    if request.param == "sqlite":
        return lambda: tmp_path / f"home-{next(_NUMBERS)}" / "ledger.sqlite"
    server = request.getfixturevalue("postgres_server")
    return lambda: Postgres(SecretStr(server.url()), tmp_path / "ledger.sqlite", f"ledger {next(_NUMBERS)}")


@pytest.fixture
def where(new_where: Callable[[], Where]) -> Where:
    """The place of a new ledger, of each kind."""
    return new_where()


def as_text(where: Where) -> str:
    """Return a place as an argument of another process; ``place_of`` reads it."""
    if isinstance(where, Path):
        return str(where)
    values: dict[str, Any] = {"url": where.url.get_secret_value(), "files": str(where.files), "schema": where.schema}
    return json.dumps(values | {"lease_seconds": where.lease_seconds})


def place_of(text: str) -> Where:
    """Return the place that ``as_text`` wrote."""
    if not text.startswith("{"):
        return Path(text)
    values = json.loads(text)
    return Postgres(SecretStr(values["url"]), Path(values["files"]), values["schema"], values["lease_seconds"])
