"""Files of a store that several machines have written, for a store that has no transfers yet.

Each machine imports the transfers of some tokens into a store of its own, with the numbers of addresses of a common
dictionary. ``add_built`` of ``store`` lists the files of all these stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holderlake.engine.files.integrity import Sum
from holderlake.engine.files.listing import PartFile, RunFile, VolumeFile
from holderlake.engine.importing.paths import FOLDERS
from holderlake.engine.records import Key


@dataclass(frozen=True)
class BuiltFiles:
    """Files below the folder ``root``, which must be on the file system of the store.

    ``numbers`` has the number of each token by (chain, address), ``standards`` its token standard. ``parts`` has all
    parts. ``run`` is the adjacency of all transfers (None if all have the value 0), ``volume`` the dictionary of all
    addresses. ``sums`` has the ``Sum`` of each file, by path.
    """

    root: Path
    numbers: Mapping[Key, int]
    standards: Mapping[Key, str]
    parts: Sequence[PartFile]
    run: RunFile | None
    volume: VolumeFile
    sums: Mapping[str, Sum]

    def take_back(self, store: Path) -> None:
        """Move the files back below ``root`` that an interrupted ``add_built`` moved into the folder of the store."""
        for folder in FOLDERS:
            for path in (store / folder).iterdir():
                built_path = f"{folder}/{path.name.partition('-')[2]}"
                if built_path in self.sums:
                    path.rename(self.root / built_path)
