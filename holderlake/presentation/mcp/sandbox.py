"""Run SQL of others on the warehouse, in a process of its own with bounds on rows, bytes, seconds and memory.

The process opens the warehouse read-only. DuckDB's settings forbid files, other databases, extensions and changes of
settings, except for reading the warehouse's own transfers; the operating system forbids the process to write files. A
query that passes its time is interrupted, and if it does not stop, its process is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb

from holderlake.core.contract.text import printable
from holderlake.core.warehouse.connections import WarehouseError, attach, explained, first_line, one_read

_GRACE_SECONDS: Final = 3.0
_START_SECONDS: Final = 30.0
_MOST_REMEMBERED: Final = 200
_EXACT_INTEGERS: Final = 2**53
_MOST_ESTIMATED_ROWS: Final = 10**11


@dataclass(frozen=True)
class Bounds:
    """The bounds of one query: rows and bytes of its answer, seconds, and MB of memory."""

    rows: int = 1_000
    bytes: int = 500_000
    seconds: float = 20.0
    memory_mb: int = 1_000


@dataclass(frozen=True)
class Result:
    """The answer to a query. ``is_cut`` is True if it has more rows than ``rows``.

    ``rows`` are lists of plain values: exact numbers that JSON cannot hold are texts, times are UTC.
    ``estimated_rows`` is the number of rows that DuckDB expected to process, before the query ran.
    """

    columns: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    is_cut: bool = False
    estimated_rows: int = 0


class Refused(Exception):
    """A query that is refused or failed, with the reason."""


class Sandbox:
    """A process that answers queries about the warehouse's file ``path``, one after another."""

    def __init__(self, path: Path, bounds: Bounds | None = None) -> None:
        self._path = path
        self.bounds = bounds or Bounds()
        self._process: asyncio.subprocess.Process | None = None
        self._remembered: dict[str, Result] = {}
        self._version: tuple[int, int] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, sql: str, rows: int | None = None) -> Result:
        """Return the answer to one SELECT (or FROM, DESCRIBE, SHOW, SUMMARIZE), with up to ``rows`` rows.

        Raises ``Refused`` if the statement is another one, fails, or passes a bound.
        """
        question = {"sql": sql, "rows": min(rows or self.bounds.rows, self.bounds.rows)}
        async with self._one_at_a_time:
            try:
                answer = await self._exchange(question)
            except BaseException:
                await self.close()  # nobody would read the answer of the query that may still run
                raise
        if "refused" in answer:
            raise Refused(answer["refused"])
        return Result(**answer)

    async def ask_once(self, sql: str) -> Result:
        """Return the answer to a query as ``ask`` does; the same one again until a load replaces the warehouse."""
        stat = self._path.stat()
        if self._version != (stat.st_ino, stat.st_mtime_ns):
            self._version, self._remembered = (stat.st_ino, stat.st_mtime_ns), {}
        if sql not in self._remembered:
            if len(self._remembered) >= _MOST_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[sql] = await self.ask(sql)
        return self._remembered[sql]

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _exchange(self, question: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await self._start()
        assert process.stdin is not None and process.stdout is not None  # noqa: S101 - they are pipes
        process.stdin.write(json.dumps(question).encode() + b"\n")
        try:
            await process.stdin.drain()
            line = await asyncio.wait_for(process.stdout.readline(), self.bounds.seconds + _GRACE_SECONDS)
        except TimeoutError:
            raise Refused(f"the query ran longer than {self.bounds.seconds:g} s and was ended; ask for less") from None
        except (OSError, ValueError) as error:
            raise Refused(f"the query ended its process ({error}); ask for less") from None
        if not line:
            raise Refused("the query needed too much memory and was ended; ask for less")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def _start(self) -> asyncio.subprocess.Process:
        environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG", "TZ") if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "holderlake.presentation.mcp.sandbox",
                str(self._path),
                json.dumps(asdict(self.bounds)),
            ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},  # no keys of providers
            limit=4 * self.bounds.bytes + 1_000_000,
        )
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        await asyncio.wait_for(process.stdout.readline(), _START_SECONDS)
        return process


def answer(path: Path, sql: str, rows: int, bounds: Bounds) -> Result:
    """Return the answer to a query. Raises ``Refused`` and ``WarehouseError``."""
    settings: dict[str, str | int] = {"memory_limit": f"{bounds.memory_mb}MB", "temp_directory": "", "threads": 2}
    with attach(path, settings=settings) as connection:
        timer = threading.Timer(bounds.seconds, connection.interrupt)
        timer.start()
        try:
            sql = one_read(connection, sql)
            estimated = _estimated(connection, sql)
            if estimated > _MOST_ESTIMATED_ROWS:
                raise Refused(f"DuckDB expects about {estimated:,} rows; join on more columns, or filter")
            cursor = connection.execute(f"FROM (\n{sql}\n) LIMIT {rows + 1}")
            columns, types = zip(*((name, str(kind)) for name, kind, *_ in cursor.description or ()), strict=True)
            answer_rows = _fetch_rows(cursor, bounds.bytes)
        except duckdb.InterruptException:
            raise Refused(f"the query ran longer than {bounds.seconds:g} s and was ended; ask for less") from None
        except duckdb.OutOfMemoryException:
            raise Refused(f"the query needed more than {bounds.memory_mb:,} MB; ask for less") from None
        except duckdb.Error as error:
            raise Refused(printable(str(explained(error)), exempt="\n")[:2_000]) from None
        finally:
            timer.cancel()
    is_cut = len(answer_rows) > rows
    return Result(list(columns), list(types), answer_rows[:rows], is_cut, estimated)


def _estimated(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    """Return the largest number of rows that DuckDB expects in a step of the query; 0 if it does not say."""
    try:
        (row,) = connection.execute(f"EXPLAIN (FORMAT json) {sql}").fetchall()
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        return 0
    with suppress(ValueError):
        return max(_cardinalities(json.loads(row[1])), default=0)
    return 0


def _cardinalities(plan: Any) -> Iterator[int]:
    for step in plan if isinstance(plan, list) else [plan]:
        with suppress(TypeError, ValueError):
            yield int(str(step.get("extra_info", {}).get("Estimated Cardinality", 0)).lstrip("~"))
        yield from _cardinalities(step.get("children", []))


def _fetch_rows(cursor: duckdb.DuckDBPyConnection, most_bytes: int) -> list[list[Any]]:
    """Return the rows as plain values. Raises ``Refused`` if their JSON is larger than ``most_bytes``."""
    plain_rows, size = [], 0
    while batch := cursor.fetchmany(200):
        for row in batch:
            plain = [_plain(value) for value in row]
            size += len(json.dumps(plain))
            if size > most_bytes:
                raise Refused(f"the answer is larger than {most_bytes:,} bytes; ask for fewer rows or columns")
            plain_rows.append(plain)
    return plain_rows


def _plain(value: Any) -> Any:  # noqa: PLR0911 - one for each kind of value
    """Return a value for JSON: exact numbers beyond a double as text, times as ISO 8601 in UTC, texts printable."""
    match value:
        case None | bool():
            return value
        case str():
            return printable(value, exempt="\n\t")
        case int():
            return value if abs(value) < _EXACT_INTEGERS else str(value)
        case float():
            return value if abs(value) < float("inf") else str(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            return value.replace(tzinfo=None).isoformat() + "Z"
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {printable(str(name)): _plain(item) for name, item in value.items()}
    return printable(str(value))


def _limit_process(bounds: Bounds) -> None:
    """Forbid this process to write files, and bound its memory (address space)."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    max_bytes = (bounds.memory_mb + 4_000) * 10**6
    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))


def main() -> None:
    """Answer the questions of ``Sandbox``, one line of JSON each, until its pipe closes."""
    path, bounds = Path(sys.argv[1]), Bounds(**json.loads(sys.argv[2]))
    _limit_process(bounds)
    _say({"ready": True})
    for line in sys.stdin:
        question = json.loads(line)
        try:
            reply: dict[str, Any] = asdict(answer(path, question["sql"], question["rows"], bounds))
        except (Refused, WarehouseError) as error:
            reply = {"refused": str(error)}
        except (MemoryError, RuntimeError, ValueError, OverflowError) as error:
            reply = {"refused": f"the query failed: {first_line(error)}"}
        _say(reply)


def _say(reply: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
