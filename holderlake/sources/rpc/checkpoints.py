"""Checkpoints of imports: the blocks of each scope that are in the store, and the hashes of blocks.

A scope is a token's address, ``*`` (all tokens), ``native`` (values of transactions) or ``internal`` (values of traced
calls). The import first stores a block's hash, then the block's rows, and then marks the block as read. If the process
is killed before the mark, the block is read again, and rows that are stored are skipped. If the
block's hash has changed, the block is rolled back.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from holderlake.core.storage.locks import locked
from holderlake.core.storage.sqlite import use_write_ahead_log
from holderlake.engine.errors import BadSource, UnusableStore

ALL_TOKENS: Final = "*"
_FILE: Final = "nodes.sqlite"
_BUSY_SECONDS: Final = 60.0
_PATIENCE: Final = 5.0
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS chains (chain TEXT PRIMARY KEY, evm_id INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS covered (
    chain TEXT NOT NULL,
    scope TEXT NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (chain, scope, first)
);
CREATE TABLE IF NOT EXISTS hashes (
    chain TEXT NOT NULL,
    number INTEGER NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (chain, number)
);
CREATE TABLE IF NOT EXISTS asked ( -- tokens and addresses that the node was asked about
    chain TEXT NOT NULL,
    address TEXT NOT NULL,
    what TEXT NOT NULL, -- token, code, no_decimals
    PRIMARY KEY (chain, address, what)
);
"""


class ChainBusy(BadSource):
    """Another process is importing the chain from a node."""


def imported_chain(root: Path, evm_id: int) -> str | None:
    """Return the only chain of the store ``root`` that was imported from nodes with this chain id, else None."""
    if not (root / _FILE).exists():
        return None
    with Checkpoints(root, "") as checkpoints:
        chains = checkpoints.chains(evm_id)
    return chains[0] if len(chains) == 1 else None


class Checkpoints:
    """The checkpoints of one chain. They are in a SQLite file in the store's folder, which is made if missing.

    Use it as a context manager.
    """

    def __init__(self, root: Path, chain: str) -> None:
        self._root = root
        self._chain = chain
        # one thread at a time uses it, but different ones
        self._database = sqlite3.connect(root / _FILE, timeout=_BUSY_SECONDS, check_same_thread=False)
        try:
            use_write_ahead_log(self._database, _BUSY_SECONDS)
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            self._database.close()
            raise UnusableStore(
                f"{root / _FILE} cannot be used ({error}); if it is damaged, move it away and repeat the command: its "
                "blocks are read again, and transfers that are stored are not added twice"
            ) from error

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Context manager that holds the lock of the chain, which only one import can hold.

        Raises ``ChainBusy`` if another import holds it for some seconds: following a chain holds it for a part of one.
        """
        name = f"nodes-{re.sub(r'[^a-z0-9]', '_', self._chain)}.lock"
        if_held = ChainBusy(f"another process is importing chain {self._chain} from a node; wait until it ends")
        with locked(self._root / name, if_held, _PATIENCE):
            yield

    def chains(self, evm_id: int) -> list[str]:
        """Return the chains that were imported from nodes with this chain id."""
        with self._database as database:
            rows = database.execute("SELECT chain FROM chains WHERE evm_id = ? ORDER BY chain", (evm_id,)).fetchall()
        return [chain for (chain,) in rows]

    def evm_id(self) -> int | None:
        """Return the chain id of earlier imports; None if there was no import."""
        with self._database as database:
            row = database.execute("SELECT evm_id FROM chains WHERE chain = ?", (self._chain,)).fetchone()
        return int(row[0]) if row else None

    def keep_evm_id(self, evm_id: int) -> None:
        """Store the chain id of an import. Do nothing if one is stored already."""
        with self._database as database:
            database.execute("INSERT OR IGNORE INTO chains VALUES (?, ?)", (self._chain, evm_id))

    def covered(self, scope: str) -> list[Interval]:
        """Return the blocks that were read for a scope, as intervals."""
        sql = "SELECT first, last FROM covered WHERE chain = ? AND scope = ?"
        with self._database as database:
            return merge_intervals(database.execute(sql, (self._chain, scope)))

    def cover(self, scopes: Iterable[str], first_block: int, last_block: int) -> None:
        """Mark the blocks from ``first_block`` to ``last_block``, both included, as read for the scopes.

        Their rows must already be stored.
        """
        with self._database as database:
            for scope in scopes:
                key = (self._chain, scope)
                intervals = database.execute("SELECT first, last FROM covered WHERE chain = ? AND scope = ?", key)
                self._replace(database, scope, merge_intervals([*intervals, (first_block, last_block)]))

    def _replace(self, database: sqlite3.Connection, scope: str, intervals: Iterable[Interval]) -> None:
        database.execute("DELETE FROM covered WHERE chain = ? AND scope = ?", (self._chain, scope))
        database.executemany(
            "INSERT INTO covered VALUES (?, ?, ?, ?)", [(self._chain, scope, *interval) for interval in intervals]
        )

    def keep_hashes(self, hashes: Mapping[int, str]) -> None:
        """Store hashes of blocks, by number. Call this before the rows of the blocks are stored."""
        with self._database as database:
            database.executemany(
                "INSERT OR REPLACE INTO hashes VALUES (?, ?, ?)",
                [(self._chain, number, block_hash) for number, block_hash in hashes.items()],
            )

    def hashes(self, first_block: int, last_block: int) -> dict[int, str]:
        """Return the stored hashes of the blocks from ``first_block`` to ``last_block``, both included, by number."""
        sql = "SELECT number, hash FROM hashes WHERE chain = ? AND number BETWEEN ? AND ?"
        return dict(self._database.execute(sql, (self._chain, first_block, last_block)).fetchall())

    def roll_back(self, block: int) -> None:
        """Delete the checkpoints of all blocks after ``block``.

        The rows of these blocks must already be removed from the store.
        """
        with self._database as database:
            database.execute("DELETE FROM hashes WHERE chain = ? AND number > ?", (self._chain, block))
            database.execute("DELETE FROM covered WHERE chain = ? AND first > ?", (self._chain, block))
            database.execute("UPDATE covered SET last = ? WHERE chain = ? AND last > ?", (block, self._chain, block))

    def covered_from(self, block: int) -> dict[Interval, set[str]]:
        """Return the blocks from ``block`` on that were read, as intervals with their scopes."""
        sql = "SELECT scope, max(first, ?), last FROM covered WHERE chain = ? AND last >= ?"
        intervals: dict[Interval, set[str]] = {}
        for scope, first_block, last_block in self._database.execute(sql, (block, self._chain, block)):
            intervals.setdefault(Interval(first_block, last_block), set()).add(scope)
        return intervals

    def thin_out(self, dense_from: int, ends: int) -> None:
        """Delete the hashes of blocks before ``dense_from``, except every ``ends``-th block and the last block of each
        interval."""
        with self._database as database:
            database.execute(
                "DELETE FROM hashes WHERE chain = ? AND number < ? AND number % ? <> 0"
                " AND number NOT IN (SELECT last FROM covered WHERE chain = ?)",
                (self._chain, dense_from, ends, self._chain),
            )

    def not_asked(self, kind: str, addresses: Iterable[str]) -> list[str]:
        """Return the addresses for which the data ``kind`` were not yet requested from the node.

        ``kind`` is ``token`` (metadata) or ``code`` (contract code).
        """
        sql = "SELECT address FROM asked WHERE chain = ? AND what = ?"
        with self._database as database:
            requested = {address for (address,) in database.execute(sql, (self._chain, kind))}
        return [address for address in dict.fromkeys(addresses) if address not in requested]

    def keep_asked(self, kind: str, addresses: Iterable[str]) -> None:
        """Record that the data ``kind`` of the addresses were requested from the node.

        ``kind`` is ``token`` (metadata) or ``code`` (contract code).
        """
        with self._database as database:
            database.executemany(
                "INSERT OR IGNORE INTO asked VALUES (?, ?, ?)", [(self._chain, address, kind) for address in addresses]
            )


class Interval(NamedTuple):
    """Blocks from ``first_block`` to ``last_block``, both included."""

    first_block: int
    last_block: int

    @property
    def size(self) -> int:
        """The number of blocks."""
        return self.last_block - self.first_block + 1


def merge_intervals(intervals: Iterable[tuple[int, int]]) -> list[Interval]:
    """Return the blocks of ``intervals`` as the least number of intervals, sorted."""
    disjoint: list[Interval] = []
    for first_block, last_block in sorted(intervals):
        if disjoint and first_block <= disjoint[-1].last_block + 1:
            disjoint[-1] = Interval(disjoint[-1].first_block, max(disjoint[-1].last_block, last_block))
        else:
            disjoint.append(Interval(first_block, last_block))
    return disjoint


def gaps(covered: Iterable[tuple[int, int]], first_block: int, last_block: int) -> Iterator[Interval]:
    """Yield the intervals between ``first_block`` and ``last_block``, both included, that are not in ``covered``."""
    for begin, end in merge_intervals(covered):
        if begin > last_block:
            break
        if begin > first_block:
            yield Interval(first_block, begin - 1)
        first_block = max(first_block, end + 1)
    if first_block <= last_block:
        yield Interval(first_block, last_block)


def missing_blocks(
    covered: Mapping[str, Iterable[tuple[int, int]]], first_block: int, last_block: int
) -> dict[Interval, list[str]]:
    """Return the blocks from ``first_block`` to ``last_block`` (both included) that scopes lack, as ascending intervals
    with the scopes that lack exactly these. ``covered`` has for each scope the intervals that were read."""
    missing: dict[Interval, list[str]] = {}
    for scope, intervals in covered.items():
        for gap in gaps(intervals, first_block, last_block):
            missing.setdefault(gap, []).append(scope)
    return dict(sorted(missing.items()))
