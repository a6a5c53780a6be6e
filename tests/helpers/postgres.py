"""A real PostgreSQL server of the tests' own: a new cluster in a temporary folder, on a free port of this machine.

And a wire to it that can be cut at the worst moment.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import psycopg
from sqlalchemy import URL

from tests.helpers.processes import wait_until
from tests.helpers.real import missing

USER: Final = "keeper"
_SETTINGS: Final = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
full_page_writes = off
max_connections = 200
"""


def programs() -> Path:
    """The folder of PostgreSQL's programs. Skips the test without them, or fails it where real parts are required."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else [*Path("/usr/lib/postgresql").glob("*/bin")]
    folders = [folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()]
    if not folders:
        text = "PostgreSQL's programs are not here (initdb, postgres); Debian has them in the package 'postgresql'"
        missing(text)
    return max(folders, key=lambda folder: int("".join(filter(str.isdigit, folder.parent.name)) or 0))


class PostgresServer:
    """A server that runs from ``start`` to ``stop``. Its password has what URLs have to escape."""

    def __init__(self, folder: Path) -> None:
        self._programs = folder
        self._user = None if os.geteuid() else "postgres"  # it refuses to run as root
        self._home = Path(tempfile.mkdtemp(prefix="holderlake-postgres-"))
        self._home.chmod(0o755)
        self._data = self._home / "data"
        self._number = 0
        self.password = f"p@ss/{secrets.token_hex(8)}%:"
        self.port = 0

    def make(self) -> None:
        """Makes the cluster."""
        password_file = self._home / "password"
        password_file.write_text(self.password)
        if self._user:
            for path in (self._home, password_file):
                shutil.chown(path, self._user, self._user)
        self._run("initdb", "-U", USER, f"--pwfile={password_file}", "-A", "scram-sha-256", "-E", "UTF8", "--no-sync")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(_SETTINGS + f"port = {self.port}\n")

    def start(self) -> None:
        """Returns when it takes connections."""
        self._run("pg_ctl", "-w", "-t", "300", "-l", str(self._home / "log"), "start")

    def stop(self) -> None:
        """Ends it as a crash does; what was committed stays."""
        self._run("pg_ctl", "-w", "-t", "300", "-m", "immediate", "stop")

    def remove(self) -> None:
        """Stops it if it runs, and leaves nothing behind."""
        if (self._data / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self._home)

    def url(self, database: str = "postgres", **query: str) -> str:
        """The address of a database, as an operator writes it."""
        made = URL.create("postgresql", USER, self.password, "127.0.0.1", self.port, database, query)
        return made.render_as_string(hide_password=False)

    def new_database(self) -> str:
        """The address of a new, empty database."""
        self._number += 1
        name = f"test_{self._number}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def new_schema(self) -> str:
        """The address of an empty schema of one database, which is made sooner than a database is."""
        self._number += 1
        name = f"test_{self._number}"
        self.execute(f"CREATE SCHEMA {name}")
        return self.url(options=f"-csearch_path={name}")

    def execute(self, sql: str, url: str | None = None) -> list[tuple[object, ...]]:
        """Rows of a statement, asked beside the code that is tested."""
        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def end_sessions(self, database: str) -> None:
        """Ends the sessions at a database, as a restart or a firewall does. New ones may begin meanwhile."""
        of_database = f"FROM pg_stat_activity WHERE datname = '{database}'"
        ended = set(self.execute(f"SELECT pid, pg_terminate_backend(pid) {of_database}"))
        wait_until(lambda: not {(pid, True) for (pid,) in self.execute(f"SELECT pid {of_database}")} & ended)

    def log(self) -> str:
        """What the server wrote."""
        return (self._home / "log").read_text(errors="replace")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), "-D", str(self._data), *arguments],
            user=self._user,
            cwd=self._home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # a pipe would stay open for as long as the server runs
            stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            written = self.log() if (self._home / "log").exists() else (done.stderr or b"").decode(errors="replace")
            raise RuntimeError(f"{program} failed: {written[-2_000:]}")


class Wire:
    """A way to a server on which the answer to a commit can get lost; the server has committed all the same."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.loses_next_commit = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            lost = threading.Event()
            for work in (self._to_server, self._to_client):
                threading.Thread(target=work, args=(client, server, lost), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        while data := _received(client):
            if self.loses_next_commit and b"COMMIT\0" in data:
                self.loses_next_commit = False
                lost.set()
            server.sendall(data)
        _closed(server)

    def _to_client(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        while (data := _received(server)) and not lost.is_set():
            client.sendall(data)
        _closed(client)
        _closed(server)


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(1 << 16)
    except OSError:
        return b""


def _closed(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
