"""The kinds of evidence that two wallets have one owner, and the confidence of each.

Each kind is a file ``sql/evidence/<name>.sql``, whose comment defines the evidence and its levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, TypeAlias

from holderlake.analysis.entities.statements import Statement


@dataclass(frozen=True)
class EvidenceKind:
    """A kind of evidence.

    ``confidences`` are those of its levels, 0 to 1, the weakest level first. They are measured:
    ``python -m benchmarks.clusters --part calibrate`` prints them. Kinds of one ``basis`` may show the same fact
    twice, so they do not confirm each other. ``needs_times`` is True if the evidence needs the time of each transfer.
    ``in_pairs`` is True if the SQL finds pairs (a, b), whose connected wallets are linked, instead of links.
    """

    name: str
    basis: str
    confidences: tuple[float, ...]
    needs_times: bool = True
    in_pairs: bool = False

    @property
    def statement(self) -> Statement:
        """The SQL that finds the evidence."""
        return statement(f"evidence/{self.name}")


DISPERSE_TOOLS: Final = ("0xd152f549545093347a162dce210e7293f1452150",)
"""Contracts that pay many receivers for anyone in one transaction: Disperse.app, at one address on most chains."""
MAX_COUNTERPARTIES: Final = 250
"""An address that exchanged transfers with more addresses is a hub, and joins no wallets."""
MAX_WALLETS: Final = 1_000
"""Joins, the weakest first, that would make an entity of more wallets are dropped: that is a crowd, not an owner."""
LEAST_CONFIDENCE: Final = 0.5
"""Confidence from which evidence joins two wallets, unless the user chooses another one: more likely than not."""
CERTAIN: Final = 0.95
"""Confidence of evidence that was right in nearly all cases that were measured."""
EVIDENCE_KINDS: Final[Mapping[str, EvidenceKind]] = {
    kind.name: kind
    for kind in (
        EvidenceKind("direct", "transfers", (0.3, 0.6, 0.65, 0.7, 0.75, 0.95), needs_times=False),
        EvidenceKind("sweep", "transfers", (0.1, 0.95)),
        EvidenceKind("first_funder", "funding", (0.1, 0.7)),
        EvidenceKind("disperse", "funding", (0.1, 0.5), needs_times=False),
        EvidenceKind("funding_chain", "funding", (0.1, 0.95)),
        EvidenceKind("deposit", "exchange", (0.15, 0.85)),
        EvidenceKind("in_step", "behaviour", (0.95,), in_pairs=True),
    )
}
"""All kinds of evidence by name."""
Level: TypeAlias = tuple[str, int]
"""A kind of evidence and its level, from 1."""
LEVELS: Final[Mapping[Level, float]] = {
    (kind.name, level): confidence
    for kind in EVIDENCE_KINDS.values()
    for level, confidence in enumerate(kind.confidences, 1)
}
"""The stated confidence of each level."""


@cache
def statement(name: str) -> Statement:
    """Return the statement in the file ``name`` of the folder ``sql``."""
    text = files("holderlake.analysis.entities").joinpath("sql", f"{name}.sql").read_text("utf-8")
    return Statement(name.rpartition("/")[2], text)
