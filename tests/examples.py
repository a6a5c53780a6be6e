"""The number of examples and cases that a behaviour is tested with.

Most faults show in the first dozen examples. So a property with twenty or more examples is tested with a quarter of
them, at most a hundred, and with all if ``HOLDERLAKE_ALL_EXAMPLES`` is 1.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

import pytest

MANY: Final = 20


def some(examples: int) -> int:
    """Return the number of examples to test."""
    if examples < MANY or os.environ.get("HOLDERLAKE_ALL_EXAMPLES") == "1":
        return examples
    return min(100, max(MANY // 2, examples // 4))


def first(number: int, values: Iterable[Any]) -> list[Any]:
    """Return values for ``pytest.mark.parametrize``, of which all but the first ones are tested as long tests.

    A value of several parameters is a tuple.
    """
    all_values = list(values)
    rest = (value if isinstance(value, tuple) else (value,) for value in all_values[number:])
    return all_values[:number] + [pytest.param(*value, marks=pytest.mark.long) for value in rest]
