"""The table of formats, ``files/presets.toml``: names, keys and values by which files are recognised."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

FORMATS_TABLE: Final[Mapping[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "files" / "presets.toml").read_text(encoding="utf-8")
)
STANDARDS: Final[Mapping[str, str]] = {
    name: standard for standard, names in FORMATS_TABLE["standards"].items() for name in names
}
"""Our token standards by the names in exports, in lower case and without hyphens."""


@functools.lru_cache(1 << 16)
def folded_name(name: str) -> str:
    """Return a name in lower case without separators, in which the spellings of an export are equal."""
    return re.sub(r"[^a-z0-9]", "", name.lower()) or name.lower()


def spellings(names: Iterable[str]) -> dict[str, str]:
    """Return the names of a file's columns by their folded names. The first of equal names counts."""
    return {folded_name(name): name for name in reversed(list(names))}


def first_spelt(names: Iterable[str], usual_names: Iterable[str]) -> str | None:
    """Return the name of a file's column for the first of ``usual_names`` that the file has; None if it has none."""
    spelt = spellings(names)
    return next((spelt[folded_name(name)] for name in usual_names if folded_name(name) in spelt), None)
