"""A bucket in memory, for tests that need no server. Import it after ``require_s3``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from obstore.store import MemoryStore

from holderlake.scale.bucket.objects import MOST_BYTES, Bucket, Listed, Version


class Counted(Bucket):
    """A bucket in memory that counts requests by kind, and the names of its puts."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), "memory://lake")
        self.requests: Counter[str] = Counter()
        self.puts: list[str] = []
        self.before_put: Callable[[str], None] = lambda name: None

    def get(self, name: str, most: int = MOST_BYTES) -> tuple[bytes, Version] | None:
        self.requests["get"] += 1
        return super().get(name, most)

    def part(self, name: str, start: int, length: int) -> bytes:
        self.requests["part"] += 1
        return super().part(name, start, length)

    def put(self, name: str, data: bytes) -> None:
        self.before_put(name)
        self.puts.append(name)
        super().put(name, data)

    def put_if(self, name: str, data: bytes, version: Version | None) -> Version | None:
        self.before_put(name)
        self.puts.append(name)
        return super().put_if(name, data, version)

    def list(self, prefix: str, after: str = "") -> Iterator[Listed]:
        self.requests["list"] += 1
        return super().list(prefix, after)
