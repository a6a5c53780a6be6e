"""Databases of keys that tests open, in this process and in others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from holderlake.core.storage.state import Where
from holderlake.service.billing.keys import Charge, ChargeRequest, KeyStore, postgresql_place
from tests.helpers.postgres import PostgresServer
from tests.helpers.processes import PIPE, Process, start

SECRET: Final = b"the secret of the services of these tests"


class OneByOne(KeyStore):
    """Keys whose requests are charged one at a time. The service books many in one transaction."""

    def reserve(self, key_id: int, endpoint: str, cost: int) -> str:
        """Return the id of a new charge, or raise the error that refuses it."""
        (result,) = self.book((), (), (ChargeRequest(key_id, endpoint, cost),))
        if isinstance(result, Charge):
            return result.id
        raise result

    def settle(self, charge: str) -> None:
        self.book((charge,), (), ())

    def release(self, charge: str) -> None:
        self.book((), (charge,), ())


class Clock:
    """A clock with a fixed time."""

    def __init__(self, instant: datetime) -> None:
        self.instant = instant

    def __call__(self) -> datetime:
        return self.instant


@dataclass(frozen=True)
class Ledger:
    """A SQLite file; or a schema or database of PostgreSQL, its server, and the file next to which processes lock."""

    file: Path
    url: str | None = None
    server: PostgresServer | None = None

    @property
    def place(self) -> Where:
        return postgresql_place(SecretStr(self.url), self.file) if self.url else self.file

    @property
    def secret(self) -> bytes | None:
        return SECRET if self.server else None

    def open(self, **options: Any) -> OneByOne:
        return OneByOne(self.place, self.secret, **({"busy_seconds": 600.0} | options))

    def python(self, code: str) -> Process:
        """Another process, in which ``keys`` is the open store."""
        place = f"postgresql_place(SecretStr({self.url!r}), file)" if self.url else "file"
        begin = (
            "import sys, os, time\nfrom pathlib import Path\nfrom pydantic import SecretStr\n"
            f"from holderlake.service.billing.keys import *\nfile = Path({str(self.file)!r})\n"
            f"keys = KeyStore({place}, {self.secret!r}, busy_seconds=600.0)\n"
        )
        return start(begin + code, stdin=PIPE, stdout=PIPE, stderr=PIPE)

    def kept(self) -> str:
        """Return all contents of the database as text; bytes as hexadecimal digits."""
        if self.server is None:
            files = [self.file, self.file.with_name(f"{self.file.name}-wal")]
            held = b"".join(file.read_bytes() for file in files if file.exists())
            return held.decode("latin-1") + held.hex()
        names = ("ledger", "accounts", "keys", "usage", "reservations", "owners")
        tables = [self.server.execute(f"SELECT t::text FROM {name} AS t", self.url) for name in names]
        return repr(tables) + self.server.log()


def account_of(keys: KeyStore, allowance: int = 100, renewal_day: int = 1) -> int:
    """The id of a new key of a new account."""
    found = keys.find(keys.create("test", allowance, renewal_day=renewal_day))
    assert found is not None
    return found.id
