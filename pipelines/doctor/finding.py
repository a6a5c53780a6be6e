"""What ``holderlake doctor`` found about one thing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing looked at: in order or not, what was found, and the way out where it is not."""

    what: str
    fine: bool
    found: str
    advice: str = ""
