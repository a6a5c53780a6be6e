"""How many examples a property is tried on.

A fault shows in the first few dozen or in none of hundreds, mostly: of a hundred and more the suite tries a quarter,
and all of them where ``HOLDERLAKE_ALL_EXAMPLES`` is 1.
"""

from __future__ import annotations

import os
from typing import Final

MANY: Final = 100


def some(examples: int) -> int:
    """How many of so many examples are tried."""
    return examples if examples < MANY or os.environ.get("HOLDERLAKE_ALL_EXAMPLES") == "1" else examples // 4
