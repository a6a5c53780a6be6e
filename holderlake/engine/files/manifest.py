"""Which files hold the store at one moment, and the arrays in them, opened when they are first asked for.

The catalogue names the files; they never change under their names, so whoever has a manifest reads one state of the
store for as long as it likes.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from holderlake.contract.chains import ZERO_ADDRESS
from holderlake.engine.files.adjacency import Run
from holderlake.engine.files.arrays import read_arrays
from holderlake.engine.files.dictionary import Dictionary, Volume
from holderlake.engine.files.integrity import FileChecks, Sums, damaged, read_sums
from holderlake.engine.files.parts import Part
from holderlake.engine.numeric.bigint import Array

BASE: Final = "base"
TAIL: Final = "tail"
OPENING: Final = "opening"

_HISTORIES: Final = "SELECT number, chain, token_address FROM histories"
_PARTS: Final = """
SELECT file, token, kind, transfers, first_time, last_time, first_block, last_block
FROM parts
ORDER BY token, kind, transfers DESC, file
"""
_RUNS: Final = "SELECT file, entries FROM runs ORDER BY entries DESC, file"
_VOLUMES: Final = "SELECT file, first_number, size FROM volumes ORDER BY first_number"

_LOOK_SECONDS: Final = 0.05

T = TypeVar("T")


@dataclass(frozen=True)
class PartFile:
    """A part of a token's transfers (or opening balances), its size and period."""

    file: str
    token: int
    kind: str
    transfers: int
    first_time: int
    last_time: int
    first_block: int
    last_block: int

    @property
    def paths(self) -> tuple[str, str]:
        """Its rows and its arrays, as paths within the store."""
        folder = "openings" if self.kind == OPENING else "transfers"
        return f"{folder}/{self.file}.parquet", f"arrays/{self.file}.part"


@dataclass(frozen=True)
class RunFile:
    """A run of the adjacency, and its size."""

    file: str
    entries: int


@dataclass(frozen=True)
class VolumeFile:
    """A volume of the dictionary."""

    file: str
    first_number: int
    size: int


@dataclass(frozen=True)
class Manifest:
    """The files of the store. ``parts`` are by number of their token, the base first."""

    numbers: Mapping[tuple[str, str], int]
    parts: Mapping[int, tuple[PartFile, ...]]
    runs: tuple[RunFile, ...]
    volumes: tuple[VolumeFile, ...]
    sums: Sums

    def parts_of(self, key: tuple[str, str]) -> tuple[PartFile, ...]:
        """The parts of a token by chain and address; none where it has none."""
        return self.parts.get(self.numbers.get(key, -1), ())

    def transfer_files(self) -> list[str]:
        """The names of all parts that are transfers, in order."""
        return sorted(part.file for parts in self.parts.values() for part in parts if part.kind != OPENING)

    @cached_property
    def keys(self) -> Mapping[int, tuple[str, str]]:
        """Chain and address of each token's number."""
        return {number: key for key, number in self.numbers.items()}

    @cached_property
    def files(self) -> frozenset[str]:
        """The names of all files."""
        parts = (part.file for parts in self.parts.values() for part in parts)
        return frozenset([*parts, *(run.file for run in self.runs), *(volume.file for volume in self.volumes)])


def read_manifest(catalog: sqlite3.Connection) -> Manifest:
    """What the catalogue names now; to be called within a transaction."""
    numbers = {(chain, address): number for number, chain, address in catalog.execute(_HISTORIES)}
    parts: dict[int, list[PartFile]] = {}
    for row in catalog.execute(_PARTS):
        part = PartFile(*row)
        parts.setdefault(part.token, []).append(part)
    return Manifest(
        numbers,
        {number: tuple(found) for number, found in parts.items()},
        tuple(RunFile(*row) for row in catalog.execute(_RUNS)),
        tuple(VolumeFile(*row) for row in catalog.execute(_VOLUMES)),
        read_sums(catalog),
    )


class OpenFiles:
    """Files that were opened, by name: shared by all manifests of a store, so that each is mapped once.

    A file is compared with its sum before it is mapped, and mapped again where it is another one on disk by then.
    Raises ``DamagedFile``.
    """

    def __init__(self, root: Path, checks: FileChecks) -> None:
        self._root = root
        self.checks = checks
        self._files: dict[str, Any] = {}

    def part(self, file: str, sums: Sums) -> Part:
        """The part of that name."""
        return self._open(file, "part", sums, Part.of)

    def run(self, file: str, sums: Sums) -> Run:
        """The run of that name."""
        return self._open(file, "run", sums, Run.of)

    def volume(self, volume: VolumeFile, sums: Sums) -> Volume:
        """The volume."""
        return self._open(volume.file, "volume", sums, lambda arrays: Volume(volume.first_number, **arrays))

    def arrays(self, file: str, kind: str, sums: Sums) -> dict[str, Array]:
        """The arrays of a file, mapped for the caller alone."""
        path = f"arrays/{file}.{kind}"
        where = self.checks.path(path, sums)
        try:
            return read_arrays(where)
        except (
            OSError,
            ValueError,
            TypeError,
            LookupError,
        ) as error:  # had no sum
            raise damaged(self._root, path, f"is not a file of arrays ({error})") from error

    def all(self) -> list[Part | Run | Volume]:
        """All files that were opened."""
        return list(self._files.values())

    def path(self, file: str, kind: str) -> Path:
        """Where the arrays of that name and kind are."""
        return self._root / "arrays" / f"{file}.{kind}"

    def keep_only(self, files: frozenset[str]) -> None:
        """Lets go of all others; who still reads them keeps them mapped."""
        for file in self._files.keys() - files:
            self._files.pop(file, None)

    def _open(self, file: str, kind: str, sums: Sums, made: Callable[[dict[str, Array]], T]) -> T:
        found: T | None = self._files.get(file)
        if found is None or self.checks.changed(f"arrays/{file}.{kind}"):
            try:
                found = self._files[file] = made(self.arrays(file, kind, sums))
            except (KeyError, TypeError) as error:
                raise damaged(self._root, f"arrays/{file}.{kind}", f"lacks the array {error}") from error
        return found


class _Kept(Generic[T]):
    """What all tokens share; its files are looked at for changes on disk at most once in ``_LOOK_SECONDS``."""

    def __init__(self) -> None:
        self._kept: tuple[float, T] | None = None

    def of(self, find: Callable[[], T]) -> T:
        """What ``find`` returned within that time, else what it returns now."""
        now = time.monotonic()
        if self._kept is None or now - self._kept[0] > _LOOK_SECONDS:
            self._kept = now, find()
        return self._kept[1]


class View:
    """The arrays of a manifest: addresses by number, who dealt with whom, and the parts of each token."""

    def __init__(self, manifest: Manifest, opened: OpenFiles) -> None:
        self.manifest = manifest
        self._opened = opened
        self._dictionary: _Kept[Dictionary] = _Kept()
        self._runs: _Kept[list[Run]] = _Kept()

    @property
    def opened(self) -> list[Part | Run | Volume]:
        """All that was opened so far."""
        return self._opened.all()

    @property
    def dictionary(self) -> Dictionary:
        """Addresses by number."""
        volumes, sums = self.manifest.volumes, self.manifest.sums
        return self._dictionary.of(lambda: Dictionary(self._opened.volume(volume, sums) for volume in volumes))

    @cached_property
    def zero(self) -> int:
        """The number of the zero address, ``UNKNOWN`` for none."""
        return int(self.dictionary.find([ZERO_ADDRESS])[0])

    @property
    def runs(self) -> list[Run]:
        """Who dealt with whom, the largest run first."""
        return self._runs.of(lambda: [self._opened.run(run.file, self.manifest.sums) for run in self.manifest.runs])

    def parts(self, chain: str, token_address: str, with_openings: bool = True) -> list[Part]:
        """The parts of a token, the base first."""
        return self._parts(self.manifest.parts_of((chain, token_address)), with_openings)

    def parts_of(self, number: int) -> list[Part]:
        """The parts of the token of that number that are transfers."""
        return self._parts(self.manifest.parts.get(number, ()), with_openings=False)

    def _parts(self, parts: tuple[PartFile, ...], with_openings: bool) -> list[Part]:
        return [
            self._opened.part(part.file, self.manifest.sums) for part in parts if with_openings or part.kind != OPENING
        ]
