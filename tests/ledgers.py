"""Databases of keys that tests open, in this process and in others."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from holderlake.service.billing.keys import KeyStore
from holderlake.service.database.schema import METADATA
from tests.postgres import PostgresServer
from tests.processes import PIPE, Process, start

SECRET: Final = b"the secret of the services of these tests"


class Clock:
    """A clock with a fixed time."""

    def __init__(self, instant: datetime) -> None:
        self.instant = instant

    def __call__(self) -> datetime:
        return self.instant


@dataclass(frozen=True)
class Ledger:
    """A SQLite file, or a schema or database of PostgreSQL with its server."""

    where: Path | str
    server: PostgresServer | None = None

    @property
    def secret(self) -> bytes | None:
        return SECRET if self.server else None

    def open(self, **options: Any) -> KeyStore:
        return KeyStore(self.where, self.secret, **({"busy_seconds": 600.0} | options))

    def python(self, code: str) -> Process:
        """Another process, in which ``keys`` is the open store."""
        begin = (
            "import sys, os, time\nfrom pathlib import Path, PosixPath, WindowsPath\n"
            "from holderlake.service.billing.keys import *\n"
            f"keys = KeyStore({self.where!r}, {self.secret!r}, busy_seconds=600.0)\n"
        )
        return start(begin + code, stdin=PIPE, stdout=PIPE, stderr=PIPE)

    def kill(self, process: Process) -> None:
        """Kill a process that has a lease, and wait until the server has noticed its end."""
        leases = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        before = self.server.execute(leases) if self.server else []
        process.kill()
        process.wait()
        while self.server and self.server.execute(leases) == before:
            time.sleep(0.01)

    def kept(self) -> str:
        """Return all contents of the database as text; bytes as hexadecimal digits."""
        if self.server is None:
            path = Path(self.where)
            files = [path, path.with_name(f"{path.name}-wal")]
            held = b"".join(file.read_bytes() for file in files if file.exists())
            return held.decode("latin-1") + held.hex()
        tables = [self.server.execute(f"SELECT t::text FROM {name} AS t", str(self.where)) for name in METADATA.tables]
        return repr(tables) + self.server.log()


def account_of(keys: KeyStore, allowance: int = 100, renewal_day: int = 1) -> int:
    """The id of a new key of a new account."""
    found = keys.find(keys.create("test", allowance, renewal_day=renewal_day))
    assert found is not None
    return found.id
