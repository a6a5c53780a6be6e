"""The result of one check of ``holderlake doctor``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The result of one check: its subject, whether it passed, a sentence, and advice for a problem."""

    what: str
    fine: bool
    found: str
    advice: str = ""
