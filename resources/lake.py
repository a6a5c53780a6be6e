"""The lake: Parquet files by table, chain and timestamp, which appear a family of tables at a time.

Layout: ``<table>/chain=<chain>/timestamp=<instant>/part-0.parquet``; ``failures`` holds one ``part-<family>.parquet``
a family, because families commit on their own. A table without rows has no file. Readers trust manifests only:
``_manifests/chain=<chain>/timestamp=<instant>/<family>.json`` names each file's rows, bytes and SHA-256.

A write that is killed at any moment leaves the partition as it was, or as it was meant to be:

1. each new file is written under a temporary name in its own folder, and synced;
2. the new manifest is put beside the old one as ``<family>.next``, by one rename. This is the commit;
3. the temporary files take their names, then ``<family>.next`` takes the manifest's.

Killed before 2, the old manifest holds and the next write clears the temporary files away. Killed after it, whoever
comes next, reader or writer, finishes 3 under the chain's lock. A file that was damaged from outside does not match
its manifest; such a partition counts as incomplete and is written again.

Loading into DuckDB belongs to the warehouse; which rows an answer makes, to ``normalise``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from contract.models import ChainId
from contract.tables import TABLES
from contract.times import parse_partition, partition_text, utc_now

FAILURES: Final = "failures"
_MANIFESTS: Final = "_manifests"
_PROVIDER: Final = "_provider.json"
_CHAIN_ID: Final = TypeAdapter(ChainId)
_READ_ATTEMPTS: Final = 5


class LakeError(Exception):
    """The lake can't take or give what was asked; the message says why and what to do."""


@dataclass(frozen=True)
class Family:
    """Tables that one kind of request fills, committed together, and the endpoints that its failures name."""

    name: str
    tables: tuple[str, ...]
    endpoints: tuple[str, ...]


FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        family.name: family
        for family in (
            Family("chains", ("chains",), ("chains",)),
            Family("tokens", ("tokens",), ("token_metadata", "tokens_metadata")),
            Family("holders", ("holders",), ("holders",)),
            Family("maps", ("maps", "map_nodes", "grouped_transfers", "clusters", "cluster_members"), ("map",)),
            Family("subgraphs", ("subgraph_transfers",), ("subgraph",)),
            Family("addresses", ("addresses",), ("address_metadata", "addresses_metadata")),
        )
    }
)


@dataclass(frozen=True)
class TableFile:
    """A table's file in a partition. Without rows there is no file."""

    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Answered:
    """Subjects (tokens, address sets, addresses) that were answered under the same request parameters."""

    parameters: dict[str, Any]
    subjects: tuple[str, ...]


@dataclass(frozen=True)
class Manifest:
    """What a partition of a family holds. ``timestamp`` is the partition's text, ``written_at`` UTC."""

    family: str
    chain: str
    timestamp: str
    provider: str
    written_at: datetime
    commit: str
    tables: dict[str, TableFile]
    answered: tuple[Answered, ...]

    @property
    def as_of(self) -> datetime:
        """The partition's instant."""
        return parse_partition(self.timestamp)

    @property
    def subjects(self) -> frozenset[str]:
        """All that was answered, what had no rows too."""
        return frozenset(subject for group in self.answered for subject in group.subjects)

    @property
    def failures(self) -> int:
        """How many requests did not end in rows."""
        return self.tables[FAILURES].rows

    def parameters_of(self, subject: str) -> dict[str, Any] | None:
        """The request parameters that a subject was answered under, or None where it was not."""
        return next((group.parameters for group in self.answered if subject in group.subjects), None)


def subject_column(table: str) -> str:
    """The column that tells what a table's row was asked for: rows are replaced and sorted by it."""
    own = {"chains": "chain", "subgraph_transfers": "address_set", "addresses": "address", FAILURES: "subject"}
    return own.get(table, "token_address")


class Lake:
    """The Parquet files below one folder, from one provider. Safe for any number of processes and threads."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def provider(self) -> str | None:
        """Whose answers the lake holds, or None before the first write."""
        try:
            return str(msgspec.json.decode((self.root / _PROVIDER).read_bytes())["provider"])
        except FileNotFoundError:
            return None

    def glob(self, table: str) -> str:
        """A pattern for tools that read Parquet by themselves."""
        return str(self.root / _known(table) / "chain=*" / "timestamp=*" / "*.parquet")

    def path(self, table: str, chain: str, as_of: datetime, family: str) -> Path:
        """Where a table's file of a partition is, or would be."""
        name = f"part-{family}.parquet" if table == FAILURES else "part-0.parquet"
        return self.root / _known(table) / _partition(chain, as_of) / name

    def write(
        self,
        family: str,
        chain: str,
        as_of: datetime,
        tables: Mapping[str, pa.Table],
        *,
        provider: str,
        subjects: Collection[str] | None = None,
        failures: pa.Table | None = None,
        parameters: Mapping[str, Any] | None = None,
        replace_all: bool = False,
    ) -> Manifest:
        """Commits the rows of ``subjects`` (by default: of those that have rows) in place of their older ones.

        Rows of other subjects stay, unless ``replace_all``. ``subjects`` names what was answered, so that an answer
        without rows counts as done; a subject that failed is none of them and keeps the rows it had. The failures of
        an answered subject vanish. ``parameters`` are the request's, kept in the manifest. Writing the same again
        changes nothing. Raises ``LakeError`` on rows that do not belong here and on another provider's lake.
        """
        partition = _Partition(self, FAMILIES[_known_family(family)], chain, as_of)
        rows = partition.checked(tables)
        failed = partition.checked_failures(failures)
        done = _rows_subjects(rows) if subjects is None else frozenset(subjects)
        if stray := _rows_subjects(rows) - done:
            raise LakeError(f"there are rows of {', '.join(sorted(stray))}, which is not among the subjects answered")
        with _locked(self.root):
            self._claim(provider)
        with _locked(partition.chain_folder):
            partition.roll_forward()
            partition.sweep()
            old = None if replace_all else partition.intact_manifest()
            merged = {name: partition.merged(name, old, rows.get(name), done) for name in partition.family.tables}
            merged[FAILURES] = partition.merged_failures(old, failed, done)
            answered = _merged_answers(old, done, dict(parameters or {}))
            return partition.commit(merged, answered, provider)
