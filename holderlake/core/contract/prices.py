"""Prices of requests in integer hundredths of a credit. Service, planner and ledger use these constants.

``Request.cost`` in ``contract.requests`` adds the parts of a request's price. Source: docs/contract.md, "Endpoints and
credits".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

CREDIT: Final = 100
"""Hundredths in one credit."""

CHAINS: Final = 1
SEARCH: Final = 50
METRICS: Final = 25 * CREDIT
SCREENSHOT: Final = 25 * CREDIT

MAP_BASE: Final = 25 * CREDIT
MAP_LIMIT: Final[Mapping[int, int]] = MappingProxyType({80: 0, 250: 50 * CREDIT, 500: 100 * CREDIT})
MAP_NODES: Final = 25 * CREDIT

HOLDERS_BASE: Final = 1 * CREDIT
HOLDERS_LIMIT: Final[Mapping[int, int]] = MappingProxyType({80: 0, 250: 10 * CREDIT, 500: 25 * CREDIT})
HOLDERS_METADATA: Final = 25 * CREDIT

REFRESH: Final = 25 * CREDIT
HISTORY: Final = 50 * CREDIT

TOKEN_METADATA: Final = 10
TOKEN_METADATA_WITH_STATS: Final = 50

SUBGRAPH_BASE: Final = 10 * CREDIT
SUBGRAPH_ADDRESS: Final = 1 * CREDIT
ADDRESS_METADATA: Final = 1 * CREDIT


def credits_text(hundredths: int) -> str:
    """Format hundredths of a credit as credits: ``2501`` is ``25.01``."""
    sign = "-" if hundredths < 0 else ""
    credits, cents = divmod(abs(hundredths), CREDIT)
    return f"{sign}{credits:,}.{cents:02d}"


def parse_credits(text: str) -> int:
    """Parse credits such as ``25`` or ``25.01`` into hundredths of a credit.

    Raises ``ValueError`` for other text and for more than two decimals.
    """
    credits, _, cents = text.strip().replace(",", "").partition(".")
    if not credits.isdigit() or len(cents) > 2 or (cents and not cents.isdigit()):
        raise ValueError(f"{text!r} is not an amount of credits; write whole credits or at most two decimals")
    return int(credits) * CREDIT + int(cents.ljust(2, "0") or 0)
