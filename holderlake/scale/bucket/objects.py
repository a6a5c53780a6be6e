"""Objects by name, in a folder or in a bucket: get, list, put, put under a condition, delete.

A put appears completely or not at all, and is durable when it returns. ``open_objects`` opens the place of a URL.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from holderlake.core import extras
from holderlake.core.contract.times import as_utc
from holderlake.core.storage.atomic_files import write_whole
from holderlake.core.storage.locks import locked

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_BYTES: Final = 2 << 30
"""Maximum bytes of an object. Holderlake writes smaller ones."""
_AT_ONCE: Final = 16
"""Maximum requests of one call that are sent concurrently."""
_LOCK: Final = ".lock"
_QUERY: Final = re.compile(r"\?\S+")


class ObjectsError(OSError):
    """A bucket cannot be read or written. The message names the bucket and the reason."""


class TooLarge(ObjectsError):
    """An object is larger than it may be, or is a link to something that is no file."""


class Version(NamedTuple):
    """The version of an object, for a put under a condition.

    ``number`` is its version number, empty if the storage has no such numbers.
    """

    e_tag: str
    number: str = ""

    @property
    def listed(self) -> str:
        """The ETag without quotes, as in ``Listed``."""
        return _plain(self.e_tag)


class Listed(NamedTuple):
    """An entry of a listing: name, ETag, size in bytes, and time of the last change (naive UTC)."""

    name: str
    e_tag: str
    size: int
    changed: datetime


def open_objects(url: str, endpoint: str | None = None, region: str | None = None, **secrets: str) -> Objects:
    """Open the storage at a URL such as ``s3://bucket/folder``, ``gs://…``, ``az://…`` or ``file:///folder``.

    Keys come from ``secrets``, or from the environment under the storage's own names. ``endpoint`` is the address of
    an S3 server other than Amazon's.
    """
    if url.startswith("file://"):
        return Folder(Path(unquote(urlsplit(url).path)))
    try:
        from obstore.store import from_url  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ObjectsError(f"{url} cannot be opened: {extras.advice(error)}") from error

    config: dict[str, Any] = dict(secrets)
    if url.startswith("s3") and endpoint:
        config |= {"endpoint": endpoint, "virtual_hosted_style_request": False}
    if url.startswith("s3") and region:
        config["region"] = region
    options = {"allow_http": True} if (endpoint or "").startswith("http://") else {}
    return Bucket(from_url(url, config=config or None, client_options=options or None), url)


def in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Call ``work`` with each item, in several threads, and return the results in order. Raises the first error."""
    item_list = list(items)
    if len(item_list) < 2:
        return [work(item) for item in item_list]
    with ThreadPoolExecutor(min(_AT_ONCE, len(item_list))) as pool:
        return list(pool.map(work, item_list))


class Folder:
    """Objects as files in a folder, on this host or on a shared file system. Files are synced to disk.

    The objects are below ``url``. Names contain ``/`` between folders. For any number of threads and processes.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = str(root)

    def get(self, name: str, max_bytes: int = MOST_BYTES) -> tuple[bytes, Version] | None:
        """Return an object's bytes and version; None if there is no object of this name.

        Raises ``TooLarge`` if it is larger than ``max_bytes``; no more are read.
        """
        try:
            handle = os.open(self.root / name, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would block
        except (FileNotFoundError, NotADirectoryError):
            return None
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
                raise _too_large(self.root / name, max_bytes)
            return file.read(max_bytes), Version(_e_tag(status))

    def part(self, name: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes of an object from the byte ``start`` on. Raises ``FileNotFoundError``."""
        with (self.root / name).open("rb") as file:
            file.seek(start)
            return file.read(length)

    def put(self, name: str, data: bytes) -> None:
        """Write an object, or replace it."""
        write_whole(self.root / name, data)

    def put_if(self, name: str, data: bytes, version: Version | None) -> Version | None:
        """Write an object if ``version`` is its version, or if it does not exist and ``version`` is None.

        Return the new version; None if nothing was written.
        """
        path = self.root / name
        with locked(self.root / _LOCK):
            present = _e_tag(path.stat()) if path.exists() else None
            if present != (version.e_tag if version else None):
                return None
            write_whole(path, data)
            return Version(_e_tag(path.stat()))

    def list(self, prefix: str, after_name: str = "") -> Iterator[Listed]:
        """Yield the objects in the folder ``prefix`` and below it, with names greater than ``after_name``, by name."""
        yield from (
            listed for listed in sorted(self._files(prefix.rstrip("/"), after_name)) if listed.name > after_name
        )

    def _files(self, folder: str, after_name: str) -> Iterator[Listed]:
        try:
            entries = list(os.scandir(self.root / folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir():
                if name >= after_name or after_name.startswith(f"{name}/"):
                    yield from self._files(name, after_name)
            elif not entry.name.startswith("."):
                with suppress(FileNotFoundError):  # deleted meanwhile
                    status = entry.stat()
                    changed = datetime.fromtimestamp(status.st_mtime, UTC).replace(tzinfo=None)
                    yield Listed(name, _e_tag(status), status.st_size, changed)

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects. Missing ones are ignored."""
        for name in names:
            (self.root / name).unlink(missing_ok=True)


class Bucket:
    """Objects in a bucket, through ``store``, a store of obstore. Every method raises ``ObjectsError``."""

    def __init__(self, store: Any, url: str) -> None:
        self.store = store
        self.url = url

    def get(self, name: str, max_bytes: int = MOST_BYTES) -> tuple[bytes, Version] | None:
        import obstore  # noqa: PLC0415 - an extra

        with self._explained("read"), suppress(FileNotFoundError):
            response = obstore.get(self.store, name)
            if response.meta["size"] > max_bytes:
                raise _too_large(f"{self.url}/{name}", max_bytes)
            return bytes(response.bytes()), _version(response.meta)
        return None

    def part(self, name: str, start: int, length: int) -> bytes:
        import obstore  # noqa: PLC0415

        with self._explained("read"):
            return bytes(obstore.get_range(self.store, name, start=start, length=length))

    def put(self, name: str, data: bytes) -> None:
        import obstore  # noqa: PLC0415

        with self._explained("written"):
            obstore.put(self.store, name, data, use_multipart=False)

    def put_if(self, name: str, data: bytes, version: Version | None) -> Version | None:
        import obstore  # noqa: PLC0415
        from obstore.exceptions import AlreadyExistsError, PreconditionError  # noqa: PLC0415

        mode: Any = "create"
        if version is not None:
            mode = {"e_tag": version.e_tag} | ({"version": version.number} if version.number else {})
        with self._explained("written"), suppress(AlreadyExistsError, FileExistsError, PreconditionError):
            return _version(obstore.put(self.store, name, data, mode=mode, use_multipart=False))
        return None

    def list(self, prefix: str, after_name: str = "") -> Iterator[Listed]:
        import obstore  # noqa: PLC0415

        with self._explained("read"):
            for page in obstore.list(self.store, prefix.rstrip("/") or None, offset=after_name or None):
                for meta in page:
                    changed = as_utc(meta["last_modified"])
                    yield Listed(meta["path"], _plain(meta["e_tag"]), meta["size"], changed)

    def delete(self, names: Iterable[str]) -> None:
        import obstore  # noqa: PLC0415

        sorted_names = sorted(names)
        with self._explained("written"), suppress(FileNotFoundError):
            if sorted_names:
                obstore.delete(self.store, sorted_names)

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        from obstore.exceptions import BaseError  # noqa: PLC0415

        try:
            yield
        except (FileNotFoundError, FileExistsError, ObjectsError):
            raise
        except (BaseError, OSError) as error:
            if type(error).__name__ in ("AlreadyExistsError", "PreconditionError"):
                raise
            raise ObjectsError(f"{self.url} can't be {verb}: {_first_line(error)}") from None


Objects: TypeAlias = Folder | Bucket
"""A storage of objects. ``Folder`` says what its methods do; other storages have the same ones."""


def _too_large(place: object, max_bytes: int) -> TooLarge:
    return TooLarge(
        f"{place} is not a file of at most {max_bytes:,} bytes; delete it, and copy the original there again"
    )


def _e_tag(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def _version(meta: Mapping[str, Any]) -> Version:
    return Version(meta["e_tag"] or "", meta["version"] or "")


def _plain(e_tag: str | None) -> str:
    return (e_tag or "").strip('"')


def _first_line(error: Exception) -> str:
    """Return the first line of an error without queries of URLs, which may contain a signature."""
    return _QUERY.sub("", str(error).strip().splitlines()[0])[:300]
