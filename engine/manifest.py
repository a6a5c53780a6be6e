"""Which files hold the store at one moment, and the arrays in them, opened when they are first asked for.

The catalogue names the files; they never change under their names, so whoever has a manifest reads one state of the
store for as long as it likes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from contract.chains import ZERO_ADDRESS
from engine.adjacency import Run, read_run
from engine.arrays import read_arrays
from engine.dictionary import Dictionary, Volume
from engine.parts import Part

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
    )


class Opened:
    """Files that were opened, by name: shared by all manifests of a store, so that each is mapped once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, Any] = {}

    def part(self, file: str) -> Part:
        """The part of that name."""
        return self._open(file, lambda: Part.of(read_arrays(self.path(file, "part"))))

    def run(self, file: str) -> Run:
        """The run of that name."""
        return self._open(file, lambda: read_run(self.path(file, "run")))

    def volume(self, volume: VolumeFile) -> Volume:
        """The volume."""
        return self._open(
            volume.file, lambda: Volume(volume.first_number, **read_arrays(self.path(volume.file, "volume")))
        )

    def all(self) -> list[Part | Run | Volume]:
        """All files that were opened."""
        return list(self._files.values())

    def path(self, file: str, kind: str) -> Path:
        """Where the arrays of that name and kind lie."""
        return self._folder / f"{file}.{kind}"

    def keep_only(self, files: frozenset[str]) -> None:
        """Lets go of all others; who still reads them keeps them mapped."""
        for file in self._files.keys() - files:
            self._files.pop(file, None)

    def _open(self, file: str, read: Callable[[], T]) -> T:
        found: T | None = self._files.get(file)
        if found is None:
            found = self._files[file] = read()
        return found


class View:
    """The arrays of a manifest: addresses by number, who dealt with whom, and the parts of each token."""

    def __init__(self, manifest: Manifest, opened: Opened) -> None:
        self.manifest = manifest
        self._opened = opened

    @property
    def opened(self) -> list[Part | Run | Volume]:
        """All that was opened so far."""
        return self._opened.all()

    @cached_property
    def dictionary(self) -> Dictionary:
        """Addresses by number."""
        return Dictionary(self._opened.volume(volume) for volume in self.manifest.volumes)

    @cached_property
    def zero(self) -> int:
        """The number of the zero address, ``UNKNOWN`` for none."""
        return int(self.dictionary.find([ZERO_ADDRESS])[0])

    @cached_property
    def runs(self) -> list[Run]:
        """Who dealt with whom, the largest run first."""
        return [self._opened.run(run.file) for run in self.manifest.runs]

    def parts(self, chain: str, token_address: str, with_openings: bool = True) -> list[Part]:
        """The parts of a token, the base first."""
        return self._parts(self.manifest.parts_of((chain, token_address)), with_openings)

    def parts_of(self, number: int) -> list[Part]:
        """The parts of the token of that number that are transfers."""
        return self._parts(self.manifest.parts.get(number, ()), with_openings=False)

    def _parts(self, parts: tuple[PartFile, ...], with_openings: bool) -> list[Part]:
        return [self._opened.part(part.file) for part in parts if with_openings or part.kind != OPENING]
