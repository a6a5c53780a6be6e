"""Random numbers and addresses from a seed, the same in every version of Python, without floating-point numbers."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")
_BASE58: Final = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_LETTER_OF_BYTE: Final = bytes(_BASE58[byte % len(_BASE58)] for byte in range(256))


class Rng:
    """A random number generator. Each token has its own, so a change to the plan of one token does not change other
    tokens."""

    def __init__(self, seed: str) -> None:
        # only getrandbits is used, because choice, sample and shuffle differ between versions of Python
        number = int.from_bytes(hashlib.sha256(seed.encode()).digest(), "big")
        self._bits = random.Random(number).getrandbits

    def below(self, limit: int) -> int:
        """Return an integer from 0 to ``limit`` - 1."""
        return (self._bits(64) * limit) >> 64

    def between(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def is_true(self, percent: int) -> bool:
        """Return True with a probability of ``percent`` / 100."""
        return self.below(100) < percent

    def choice(self, items: Sequence[T]) -> T:
        """Return a random item."""
        return items[self.below(len(items))]

    def early_choice(self, items: Sequence[T]) -> T:
        """Return a random item. Earlier items are more likely than later ones."""
        return items[min(self.below(len(items)), self.below(len(items)))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return ``count`` distinct items in random order."""
        shuffled_items = list(items)
        for place in range(count):
            swap_place = self.between(place, len(shuffled_items) - 1)
            shuffled_items[place], shuffled_items[swap_place] = shuffled_items[swap_place], shuffled_items[place]
        return shuffled_items[:count]

    def times(self, start: int, end: int, count: int) -> list[int]:
        """Return ``count`` random unix seconds from ``start`` to ``end`` (excluded), ascending."""
        return sorted(start + self.below(end - start) for _ in range(count))

    def hexadecimal(self, digits: int) -> str:
        """Return ``0x`` and ``digits`` random hexadecimal digits."""
        return f"0x{self._bits(4 * digits):0{digits}x}"

    def base58(self, letters: int) -> str:
        """Return ``letters`` random letters in base58, as in Solana's addresses and transaction signatures."""
        return self._bits(8 * letters).to_bytes(letters, "big").translate(_LETTER_OF_BYTE).decode()
