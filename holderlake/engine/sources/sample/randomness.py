"""Chance that falls the same way on every Python: whole numbers and addresses from a seed, no floating point."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")
_BASE58: Final = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_LETTER_OF_BYTE: Final = bytes(_BASE58[byte % len(_BASE58)] for byte in range(256))


class Draw:
    """A stream of chance of its own, so that a change to one story leaves the others as they are."""

    def __init__(self, seed: str) -> None:
        # only getrandbits is used: what choice, sample and shuffle draw has changed between versions of Python
        number = int.from_bytes(hashlib.sha256(seed.encode()).digest(), "big")
        self._bits = random.Random(number).getrandbits  # noqa: S311 -- invented data, no secrets

    def below(self, limit: int) -> int:
        """A whole number from 0 to ``limit`` - 1."""
        return (self._bits(64) * limit) >> 64

    def between(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        """True so many times in a hundred."""
        return self.below(100) < percent

    def one(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def early(self, items: Sequence[T]) -> T:
        """One of the items, the earlier ones more often."""
        return items[min(self.below(len(items)), self.below(len(items)))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """So many of the items, each once, in a random order."""
        left = list(items)
        for place in range(count):
            other = self.between(place, len(left) - 1)
            left[place], left[other] = left[other], left[place]
        return left[:count]

    def times(self, start: int, end: int, count: int) -> list[int]:
        """So many instants from ``start`` on and before ``end``, in order."""
        return sorted(start + self.below(end - start) for _ in range(count))

    def hexadecimal(self, digits: int) -> str:
        """``0x`` and so many digits."""
        return f"0x{self._bits(4 * digits):0{digits}x}"

    def base58(self, letters: int) -> str:
        """So many letters of the alphabet that Solana writes addresses and signatures in."""
        return self._bits(8 * letters).to_bytes(letters, "big").translate(_LETTER_OF_BYTE).decode()
