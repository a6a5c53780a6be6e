"""The result of one check of ``holderlake doctor``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The result of a check: its subject, whether it is fine, the finding, and advice for a problem."""

    what: str
    fine: bool
    found: str
    advice: str = ""
