"""The number of examples that a property is tested with.

Most faults show in the first few dozen examples. So a property with a hundred or more examples is tested with a quarter
of them, and with all if ``HOLDERLAKE_ALL_EXAMPLES`` is 1.
"""

from __future__ import annotations

import os
from typing import Final

MANY: Final = 100


def some(examples: int) -> int:
    """Return the number of examples to test."""
    return examples if examples < MANY or os.environ.get("HOLDERLAKE_ALL_EXAMPLES") == "1" else examples // 4
