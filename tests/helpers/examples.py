"""The number of examples that a behaviour is tested with.

Most faults show in the first dozen examples. So a property with twenty or more examples is tested with a quarter of
them, at most a hundred, and with all if ``HOLDERLAKE_ALL_EXAMPLES`` is 1.
"""

from __future__ import annotations

import os
from typing import Final

MANY: Final = 20


def some(examples: int) -> int:
    """Return the number of examples to test."""
    if examples < MANY or os.environ.get("HOLDERLAKE_ALL_EXAMPLES") == "1":
        return examples
    return min(100, max(MANY // 2, examples // 4))
