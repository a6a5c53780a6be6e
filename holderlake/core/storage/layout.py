"""Folders and names of a partition's files, in the lake and in the archive's journal of commits.

A table's file is ``<table>/chain=<chain>/timestamp=<instant>/part-0.parquet``, and the partition's manifest
``_manifests/chain=<chain>/timestamp=<instant>/<family>.json``. A table of ``SIDE_TABLES`` has one file
``part-<family>.parquet`` for each family. In a bucket the name of a table's file also has the start of its SHA-256. All
names are relative to the lake. The functions take patterns (``*``) and regular expressions too.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Final

from holderlake.core.contract.tables import FAMILY_TABLES, SIDE_TABLES, TABLES

MANIFESTS: Final = "_manifests"

Place = tuple[str, str, str]
"""A partition: its family, chain and timestamp."""


def chain_folder(chain: str) -> str:
    """Return the name of a chain's folder. It contains the folders of timestamps."""
    return f"chain={chain}"


def timestamp_folder(timestamp: str) -> str:
    """Return the name of a timestamp's folder."""
    return f"timestamp={timestamp}"


def partition_folder(chain: str, timestamp: str) -> str:
    """Return the folder of a chain and timestamp, below that of a table, of the manifests or of the journal."""
    return f"{chain_folder(chain)}/{timestamp_folder(timestamp)}"


ANY_PARTITION: Final = partition_folder("*", "*")
"""Pattern of the folders of all partitions."""


def value_of(folder: str) -> str:
    """Return the chain or timestamp of a folder with this name."""
    return folder.partition("=")[2]


def manifest_folder(chain: str | None = None, timestamp: str | None = None) -> str:
    """Return the folder of the manifests: of all chains (None), of a chain, or of a chain and timestamp."""
    if chain is None:
        return MANIFESTS
    return f"{MANIFESTS}/{chain_folder(chain) if timestamp is None else partition_folder(chain, timestamp)}"


def manifest_name(family: str, chain: str, timestamp: str) -> str:
    """Return the name of a partition's manifest."""
    return f"{manifest_folder(chain, timestamp)}/{family}.json"


def manifest_path(root: Path, family: str, chain: str, timestamp: str) -> Path:
    """Return the path of a manifest in a lake's folder, existing or not."""
    return root / manifest_name(family, chain, timestamp)


def table_name(table: str, chain: str, timestamp: str, family: str | None) -> str:
    """Return the name of a table's file. Only a table of ``SIDE_TABLES`` needs the family."""
    return f"{table}/{partition_folder(chain, timestamp)}/part-{family if table in SIDE_TABLES else 0}.parquet"


def object_name(table: str, chain: str, timestamp: str, family: str, sha256: str) -> str:
    """Return the name of a table's file in a bucket, for a file with this SHA-256 in hexadecimal."""
    part = f"part-{family}" if table in SIDE_TABLES else "part"
    return f"{table}/{partition_folder(chain, timestamp)}/{part}-{sha256[:24]}.parquet"


OBJECT: Final = rf"\w+/{partition_folder('[^/]+', '[^/]+')}/part(-\w+)?-[0-9a-f]{{24}}\.parquet"
"""Regular expression of the names that ``object_name`` returns."""


def place_of(path: PurePath) -> Place:
    """Return the family, chain and timestamp that a manifest's path contains."""
    return path.stem, *partition_of(path)


def partition_of(path: PurePath) -> tuple[str, str]:
    """Return the chain and timestamp that the path of a manifest or of a table's file contains."""
    return value_of(path.parent.parent.name), value_of(path.parent.name)


def family_of(path: PurePath) -> str | None:
    """Return the family that the file of a table belongs to; None for a file that no partition has."""
    table, part = TABLES[path.parts[-4]], path.stem.removeprefix("part-")
    if table.name in SIDE_TABLES:
        return part if part in FAMILY_TABLES else None
    return table.family if part == "0" else None
