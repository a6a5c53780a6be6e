"""The listing: the list of the store's files at one moment. ``View`` opens their arrays when they are first used.

The catalogue lists the files. A file name never gets another content, so a reader that keeps a listing always reads
the same state of the store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.engine.files.adjacency import Run
from holderlake.engine.files.arrays import read_arrays
from holderlake.engine.files.balances import BalanceFile
from holderlake.engine.files.dictionary import Dictionary, Volume
from holderlake.engine.files.integrity import FileChecks, Sums, damaged, read_sums
from holderlake.engine.files.transfer_arrays import Part
from holderlake.engine.records import Key

BASE: Final = "base"
TAIL: Final = "tail"
OPENING: Final = "opening"
CORRECTION: Final = "correction"

_HISTORIES: Final = "SELECT number, chain, token_address FROM histories"
_PARTS: Final = """
SELECT file, token, kind, transfers, first_time, last_time, first_block, last_block
FROM parts
ORDER BY token, kind, transfers DESC, file
"""
_RUNS: Final = "SELECT file, entries FROM runs ORDER BY entries DESC, file"
_VOLUMES: Final = "SELECT file, first_number, size FROM volumes ORDER BY first_number"

T = TypeVar("T")


@dataclass(frozen=True)
class PartFile:
    """A part: a file with transfers, opening balances or corrections of one token. ``file`` is its name without suffix.

    ``token`` is the token's number, ``transfers`` the number of rows. Times are unix seconds. ``kind`` is ``base`` (the
    large part), ``tail`` (a small, newer part), ``opening`` (opening balances) or ``correction`` (changes of balances
    without transfers, see ``catalog.corrections``).
    """

    file: str
    token: int
    kind: str
    transfers: int
    first_time: int
    last_time: int
    first_block: int
    last_block: int

    @property
    def has_transfers(self) -> bool:
        """True if the rows are transfers: no opening balances or corrections, which change balances alone."""
        return self.kind not in (OPENING, CORRECTION)

    @property
    def folder(self) -> str:
        """The folder within the store of the part's Parquet file with rows."""
        return "transfers" if self.has_transfers else "openings"

    @property
    def paths(self) -> tuple[str, str, str]:
        """Paths within the store of the part's files: rows (Parquet), arrays, and balances (Parquet)."""
        return f"{self.folder}/{self.file}.parquet", f"arrays/{self.file}.part", f"balances/{self.file}.parquet"


@dataclass(frozen=True)
class RunFile:
    """A run of the adjacency. ``file`` is the name of its file without suffix, ``entries`` its number of entries."""

    file: str
    entries: int


@dataclass(frozen=True)
class VolumeFile:
    """A volume of the dictionary. ``file`` is the name of its file without suffix.

    ``first_number`` is the number of its first address, ``size`` the number of its addresses.
    """

    file: str
    first_number: int
    size: int


@dataclass(frozen=True)
class Listing:
    """The files of the store at one moment.

    ``numbers`` has the number of each token, by (chain, address). ``parts`` has the parts of each token, by token
    number; the base comes first. ``sums`` has the ``Sum`` (size and checksum) of each file, by path.
    """

    numbers: Mapping[tuple[str, str], int]
    parts: Mapping[int, tuple[PartFile, ...]]
    runs: tuple[RunFile, ...]
    volumes: tuple[VolumeFile, ...]
    sums: Sums

    def parts_of(self, key: tuple[str, str]) -> tuple[PartFile, ...]:
        """Return the parts of the token ``key`` (chain, address)."""
        return self.parts.get(self.numbers.get(key, -1), ())

    def transfer_files(self) -> list[str]:
        """Return the sorted names, without suffix, of all parts of transfers."""
        return sorted(part.file for parts in self.parts.values() for part in parts if part.has_transfers)

    @cached_property
    def keys(self) -> Mapping[int, tuple[str, str]]:
        """The tokens (chain, address) by number."""
        return {number: key for key, number in self.numbers.items()}


def read_listing(catalog: sqlite3.Connection) -> Listing:
    """Read the listing from the catalogue. The caller must have opened a transaction."""
    numbers = {(chain, address): number for number, chain, address in catalog.execute(_HISTORIES)}
    parts: dict[int, list[PartFile]] = {}
    for row in catalog.execute(_PARTS):
        part = PartFile(*row)
        parts.setdefault(part.token, []).append(part)
    return Listing(
        numbers,
        {number: tuple(files) for number, files in parts.items()},
        tuple(RunFile(*row) for row in catalog.execute(_RUNS)),
        tuple(VolumeFile(*row) for row in catalog.execute(_VOLUMES)),
        read_sums(catalog),
    )


class OpenFiles:
    """Cache of the opened files of a store, by path. All listings of the store use it, so each file is mapped once.

    A file is compared with its ``Sum`` before it is mapped. If it changes on the disk, it is mapped again. Methods
    raise ``DamagedFile``.
    """

    def __init__(self, root: Path, checks: FileChecks) -> None:
        self._root = root
        self.checks = checks
        self._files: dict[str, Any] = {}

    def part(self, file: str, sums: Sums) -> Part:
        """Return the part with the file name ``file`` (without suffix), opened if necessary."""
        return self._open(f"arrays/{file}.part", sums, lambda path: Part.of(read_arrays(path)))

    def balances(self, file: str, sums: Sums) -> BalanceFile:
        """Return the balances of the part with the file name ``file`` (without suffix), opened if necessary."""
        path = f"balances/{file}.parquet"
        return self._open(path, sums, lambda _: BalanceFile(self._root, path))

    def run(self, file: str, sums: Sums) -> Run:
        """Return the run with the file name ``file`` (without suffix), opened if necessary."""
        return self._open(f"arrays/{file}.run", sums, lambda path: Run.of(read_arrays(path)))

    def volume(self, volume: VolumeFile, sums: Sums) -> Volume:
        """Return the volume, opened if necessary."""
        path = f"arrays/{volume.file}.volume"
        return self._open(path, sums, lambda path: Volume(volume.first_number, **read_arrays(path)))

    def all(self) -> list[Part | Run | Volume | BalanceFile]:
        """Return all files that are open, in any order."""
        return list(self._files.values())

    def path(self, file: str, kind: str) -> Path:
        """Return the path of a file of arrays; ``kind`` is its suffix: ``part``, ``run`` or ``volume``."""
        return self._root / "arrays" / f"{file}.{kind}"

    def keep_only(self, paths: Collection[str]) -> None:
        """Forget all opened files except those with these paths. A forgotten file stays mapped as long as a reader uses
        it."""
        for path in self._files.keys() - set(paths):
            self._files.pop(path, None)

    def _open(self, path: str, sums: Sums, make: Callable[[Path], T]) -> T:
        opened: T | None = self._files.get(path)
        if opened is None or self.checks.changed(path):
            full_path = self.checks.path(path, sums)
            try:
                opened = self._files[path] = make(full_path)
            except (OSError, ValueError, TypeError, LookupError) as error:  # damaged, which keeps the signature
                raise damaged(self._root, path, f"is not as it was written ({error})") from error
        return opened


class View:
    """The arrays of a listing's files: the dictionary of addresses, the adjacency, and the parts of each token."""

    def __init__(self, listing: Listing, files: OpenFiles) -> None:
        self.listing = listing
        self._opened = files

    @property
    def opened_files(self) -> list[Part | Run | Volume | BalanceFile]:
        """All files that this process has opened."""
        return self._opened.all()

    @property
    def dictionary(self) -> Dictionary:
        """The dictionary of addresses: numbers by address, and addresses by number."""
        return Dictionary(self._opened.volume(volume, self.listing.sums) for volume in self.listing.volumes)

    @cached_property
    def zero(self) -> int:
        """The number of the zero address; ``UNKNOWN`` (-1) if the store does not have it."""
        return int(self.dictionary.find([ZERO_ADDRESS])[0])

    @property
    def runs(self) -> list[Run]:
        """The runs of the adjacency, the largest first."""
        return [self._opened.run(run.file, self.listing.sums) for run in self.listing.runs]

    def parts(self, key: Key) -> list[Part]:
        """Return the parts of a token (chain, address), the base first, with opening balances and corrections."""
        return [self._opened.part(part.file, self.listing.sums) for part in self.listing.parts_of(key)]

    def parts_of(self, number: int) -> list[Part]:
        """Return the parts of the token with the number ``number``, without opening balances."""
        parts = self.listing.parts.get(number, ())
        return [self._opened.part(part.file, self.listing.sums) for part in parts if part.has_transfers]

    def balances(self, key: Key) -> list[BalanceFile]:
        """Return the balances of the parts of a token (chain, address), the base first."""
        return [self._opened.balances(part.file, self.listing.sums) for part in self.listing.parts_of(key)]


@dataclass(frozen=True)
class History:
    """Summary of a token's stored transfers.

    ``transfers`` is their number. ``first_time`` and ``last_time`` are the unix seconds of the first and the last.
    """

    chain: str
    token_address: str
    transfers: int
    first_time: int
    last_time: int


def history_of(key: Key, parts: Sequence[PartFile]) -> History | None:
    """Return the summary of the transfers in the parts of the token ``key``; None if there are none.

    Opening balances and corrections are not transfers, so their parts do not count.
    """
    transfer_parts = [part for part in parts if part.has_transfers]
    if not transfer_parts:
        return None
    first_time, last_time = (
        min(part.first_time for part in transfer_parts),
        max(part.last_time for part in transfer_parts),
    )
    return History(*key, sum(part.transfers for part in transfer_parts), first_time, last_time)
