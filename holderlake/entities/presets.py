"""Presets: named rules that join wallets to entities by their evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holderlake.entities.kinds import KINDS


@dataclass(frozen=True)
class Preset:
    """A rule that joins wallets to entities.

    - ``kinds``: names of the kinds of evidence that count.
    - ``families``: the fewest families of evidence that must agree on two wallets: 1 or 2.
    - ``confidence``: the least confidence of a join, 0 to 1. Evidence of confidence p and q has 1 - (1 - p)(1 - q).
    - ``counterparties``: an address that exchanged transfers with more addresses is a hub, and joins no wallets.
    """

    name: str
    kinds: tuple[str, ...] = tuple(KINDS)
    families: int = 2
    confidence: float = 0.8
    counterparties: int = 250


PRESETS: Final[Mapping[str, Preset]] = {
    preset.name: preset
    for preset in (
        Preset("two-kinds"),
        Preset("one-kind", families=1),
        Preset(  # for pairs of addresses without time, amount and transaction
            "bare-edges",
            kinds=("direct",),
            families=1,
            confidence=0.3,
            counterparties=10,
        ),
    )
}
"""All presets by name."""
