"""The kinds of evidence that two wallets have one owner, and presets: named rules that join wallets by their evidence.

Each kind is a file ``sql/evidence/<name>.sql``, whose comment defines the evidence and its confidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from holderlake.entities.statements import Statement


@dataclass(frozen=True)
class Kind:
    """A kind of evidence.

    Kinds of one ``family`` may show the same fact twice, so they do not confirm each other. ``needs_times`` is True if
    the evidence needs the time of each transfer. ``in_pairs`` is True if the SQL finds pairs
    (a, b), whose connected wallets are linked, instead of links.
    """

    name: str
    family: str
    needs_times: bool = True
    in_pairs: bool = False

    @property
    def statement(self) -> Statement:
        """The SQL that finds the evidence."""
        return statement(f"evidence/{self.name}")


DISPERSE_TOOLS: Final = ("0xd152f549545093347a162dce210e7293f1452150",)
"""Contracts that pay many receivers for anyone in one transaction: Disperse.app, at one address on most chains."""
KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("direct", "transfers", needs_times=False),
        Kind("sweep", "transfers"),
        Kind("first_funder", "funding"),
        Kind("disperse", "funding", needs_times=False),
        Kind("funding_chain", "funding"),
        Kind("deposit", "exchange"),
        Kind("in_step", "behaviour", in_pairs=True),
    )
}
"""All kinds of evidence by name."""


@cache
def statement(name: str) -> Statement:
    """Return the statement in the file ``name`` of the folder ``sql``."""
    text = files("holderlake.entities").joinpath("sql", f"{name}.sql").read_text("utf-8")
    return Statement(name.rpartition("/")[2], text)


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
