"""Parsers of durations and sizes such as ``30s``, ``24h`` and ``512MB``, and counts and shares as text.

For dates and times see ``contract.times``.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_BYTES: Final = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
_PLURAL_VERBS: Final = {"is": "are", "was": "were", "has": "have"}
_LEAST_MEMORY: Final = 64 * 10**6
_NOISE: Final = 1e-9
"""A share so near to 1 is 1: the difference is the noise of sums of floats."""


def counted(number: int, noun: str, verb: str = "") -> str:
    """Return a number with its noun and verb: ``1 chain is``, ``2 chains are``, ``3 addresses differ``.

    ``verb`` is in the singular.
    """
    if number != 1:
        noun += "es" if noun.endswith("s") else "s"
        verb = _PLURAL_VERBS.get(verb, verb.removesuffix("s"))
    return f"{number:,} {noun} {verb}".rstrip()


def percentage(share: float, digits: int) -> str:
    """Return a share (0 to 1) in percent with ``digits`` decimals.

    A share below 1 is never rounded to 100: 0.9998 with one decimal is 99.9.
    """
    text = f"{100 * share:.{digits}f}"
    return f"{100 - 10**-digits:.{digits}f}" if share < 1 - _NOISE and float(text) >= 100 else text


def parse_duration(text: str) -> timedelta:
    """Return the duration of a text such as ``30s``, ``5m``, ``24h``, ``7d``, ``2w`` or ``0``.

    Raises ``ValueError`` on any other text.
    """
    match = re.fullmatch(r"(\d{1,6}) ?([smhdw])", text.strip())
    if match is None and text.strip() != "0":
        raise ValueError(f"invalid duration {text!r}: use for example 30s, 5m, 24h or 7d")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]] if match else 0)


def parse_memory_limit(text: str) -> int:
    """Return the bytes of a memory limit such as ``512MB`` or ``2GB``.

    Raises ``ValueError`` on any other text and on less than 64 MB.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([MGT]B)", text.strip().upper())
    size = int(float(match[1]) * _BYTES[match[2]]) if match else 0
    if size < _LEAST_MEMORY:
        raise ValueError(f"invalid memory limit {text!r}: use 64MB or more, for example 512MB or 2GB")
    return size
