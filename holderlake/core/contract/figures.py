"""The figures of a map: names, units and definitions. Every page, picture, report and column takes them from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from types import MappingProxyType
from typing import Final, Literal

Unit = Literal["score", "share", "index", "groups"]
UNITS: Final[Mapping[Unit, str]] = MappingProxyType(
    {"score": "0 to 100", "share": "% of the supply", "index": "0 to 1", "groups": "groups"}
)
NOTHING: Final = "\u2013"
"""Text of an unknown figure."""
_NOISE: Final = 1e-9
"""A share so near to 1 is 1: the difference is the noise of sums of floats."""


@dataclass(frozen=True)
class Figure:
    """A figure of a map. ``short`` is its title where there is little room.

    ``explanation`` names the measure in one line; ``definition`` has the details.
    """

    title: str
    short: str
    unit: Unit
    explanation: str
    definition: str

    def text(self, value: float | None) -> str:
        """Return a value as every surface writes it: 43.5, 7.30%, 0.612, 20; a dash if it is unknown."""
        if value is None:
            return NOTHING
        if self.unit == "share":
            return share_text(value)
        if self.unit == "score":
            return _rounded(value, 1).removesuffix(".0")
        return _rounded(value, 3 if self.unit == "index" else 0)


def share_text(share: float) -> str:
    """Return a share (0 to 1) in percent: 12.3%, 7.30%, 0.054%, <0.001%. Only all of the supply is 100%."""
    if share == 0:
        return "0%"
    if share < 0.00001:
        return "<0.001%"
    if share >= 1 - _NOISE:
        return f"{_rounded(share, 0, 100)}%"
    digits = 1 if share >= 0.1 else 2 if share >= 0.001 else 3
    return f"{_rounded(min(share, 0.999), digits, 100)}%"


def _rounded(value: float, digits: int, factor: int = 1) -> str:
    """Return the product with ``digits`` decimals, halves away from 0, as browsers round."""
    number = (factor * Decimal(str(value))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return f"{number:,f}"


_GROUPS: Final = "clusters, and holders outside of them, without exchanges, pools and contracts"

FIGURES: Final[Mapping[str, Figure]] = MappingProxyType(
    {
        "service_score": Figure(
            "Score",
            "Score",
            "score",
            "0 concentrated to 100 decentralised",
            "null where it does not apply; see [the service score](engine.md#the-service-score-version-2)",
        ),
        "top_10_share": Figure(
            "10 largest holders",
            "Top 10 holders",
            "share",
            "Share of supply of the 10 largest holders, exchanges, pools and contracts included",
            "the first ten of the list of holders; null without a list",
        ),
        "top_10_adjusted": Figure(
            "10 largest groups",
            "Top 10 groups",
            "share",
            f"Share of supply of the 10 largest groups: {_GROUPS}",
            "a group is a cluster, or any other holder that a map would show, over all holders of the token",
        ),
        "bundles": Figure(
            "10 largest clusters",
            "Top 10 clusters",
            "share",
            "Share of supply of the 10 largest clusters",
            "the holders of each cluster, without the wallets that link them",
        ),
        "cexs": Figure(
            "Exchanges",
            "Exchanges",
            "share",
            "Share of supply held by centralised exchanges",
            "addresses that a label names as a centralised exchange; pools are a figure of their own; unknown if no "
            "address of the map has a label",
        ),
        "dexs": Figure(
            "Pools",
            "Pools",
            "share",
            "Share of supply held by pools of decentralised exchanges",
            "addresses that a label names as a decentralised exchange; unknown if no address of the map has a label",
        ),
        "contracts": Figure(
            "Contracts",
            "Contracts",
            "share",
            "Share of supply held by contracts, without exchanges and pools",
            "the field of answers and of the table `maps` counts these too; an exchange's contract that the map does "
            "not list is not taken off",
        ),
        "fresh_wallets": Figure(
            "Fresh wallets",
            "Fresh wallets",
            "share",
            "Share of supply held by wallets under 10 days old",
            "wallets whose first transfer is under 10 days old; if the store has only this token's transfers, nearly "
            "all wallets of its first 10 days are",
        ),
        "gini_index": Figure(
            "Gini index",
            "Gini",
            "index",
            "Inequality among groups, 0 equal to 1",
            "Gini coefficient of the groups' sizes",
        ),
        "herfindahl_hirschman_index": Figure(
            "Herfindahl\u2013Hirschman index",
            "HHI",
            "index",
            "Concentration among groups, 0 to 1",
            "sum of the squared parts of the groups' supply",
        ),
        "nakamoto_coefficient": Figure(
            "Nakamoto coefficient",
            "Nakamoto",
            "groups",
            "Smallest number of groups that together hold half",
            "fewest groups that hold half of the groups' supply",
        ),
    }
)
"""The figures by column. ``top_10_share`` is of the list of holders, the others are of the map."""
HEADLINE: Final = ("service_score", "top_10_adjusted", "bundles", "cexs", "dexs")
"""The figures above a map, on the page and in pictures."""
