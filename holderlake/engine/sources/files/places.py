"""Parquet files on this machine's file systems and in buckets, by path or address such as ``s3://bucket/folder``."""

from __future__ import annotations

from pathlib import Path

import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq

from holderlake.engine.errors import BadSource


def parquet_files(place: str) -> list[str]:
    """Return the path or address of each Parquet file in a folder and its folders; of a file, its own."""
    try:
        system, path = _file_system(place)
        if system.get_file_info(path).type is not arrow_fs.FileType.Directory:
            return [place]
        infos = system.get_file_info(arrow_fs.FileSelector(path, recursive=True))
    except (OSError, ValueError) as error:
        raise BadSource(f"{place} can't be read: {error}") from error
    prefix, mark, query = place.partition("?")
    names = (info.path[len(path.rstrip("/")) :] for info in infos if info.path.endswith(".parquet"))
    return [f"{prefix.rstrip('/')}{name}{mark}{query}" for name in names]


def opened_parquet(place: str) -> pq.ParquetFile:
    """Open a Parquet file by its path or address. Raises ``BadSource`` if it can't be read."""
    try:
        system, path = _file_system(place)
        return pq.ParquetFile(system.open_input_file(path), pre_buffer=False)
    except (OSError, ValueError) as error:
        raise BadSource(f"{place} can't be read as a Parquet file: {error}") from error


def _file_system(place: str) -> tuple[arrow_fs.FileSystem, str]:
    """Return the file system of a path or an address, and the path within it."""
    if "://" not in place:
        return arrow_fs.LocalFileSystem(), str(Path(place).resolve())
    system, path = arrow_fs.FileSystem.from_uri(place.replace("s3a://", "s3://", 1))
    return system, path
