"""Amounts of rows for tests."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any


def exact_amount(row: Mapping[str, Any], name: str) -> Decimal | None:
    """Return the exact value of an amount from a row's two columns ``{name}`` and ``{name}_exact``; None if both are
    null."""
    exact = row[f"{name}_exact"]
    return Decimal(exact) if exact is not None else row[name]
