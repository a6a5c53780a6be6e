"""Concentration among entities: Gini, Herfindahl-Hirschman, Nakamoto, and the service score. Pure integer algebra.

An entity is a cluster, or a holder outside clusters; exchanges, pools, contracts, hypernodes and burnt supply are left
out beforehand. All figures are over every holder, not only the top ones.

The service score, version 1, is ``100 * min(1, log10(1 / HHI) / 3)``: the number of equal entities that would be as
concentrated, on a scale where one is 0 and a thousand or more are 100. It never rises when two entities merge, nor when
a smaller one gives to a larger. Choice of HHI over Gini, which moves with dust: arXiv 2501.18279 and 2205.04256.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from engine.words import Array, square_sum, to_ints, total, weighted_sum

SCORE_VERSION: Final = 1
_BLOCK: Final = 256


@dataclass(frozen=True)
class Figures:
    """What the sizes of the entities of a map say; each figure is told by the function of its name."""

    gini_index: float
    herfindahl_hirschman_index: float
    nakamoto_coefficient: int
    service_score: float | None


def figures_of(sizes: Array) -> Figures:
    """All figures of the entities' sizes: words (see ``words``) by falling size, exact whatever their number."""
    count, whole = len(sizes), total(sizes)
    squares, weighted = square_sum(sizes), weighted_sum(sizes)
    # the smallest has place 1 in the definition, and the largest has it here
    from_smallest = (count + 1) * whole - weighted
    index = squares / (whole * whole) if whole else 0.0
    return Figures(
        (2 * from_smallest - (count + 1) * whole) / (count * whole) if whole else 0.0,
        index,
        _reached_at(sizes, whole),
        None if count < 2 else _score(index),
    )


def _reached_at(sizes: Array, whole: int) -> int:
    """The first place at which half of the whole is reached."""
    reached, place = 0, 0
    for block in range(0, len(sizes), _BLOCK):
        some = sizes[block : block + _BLOCK]
        if 2 * (reached + total(some)) < whole:
            reached, place = reached + total(some), place + len(some)
            continue
        for size in to_ints(some):
            reached, place = reached + size, place + 1
            if 2 * reached >= whole:
                return place
    return place


def _score(index: float) -> float:
    return round(100 * min(1.0, max(0.0, math.log10(1 / index) / 3)), 2)


def entity_sizes(balances: Iterable[tuple[str, int]], clusters: Iterable[Sequence[str]]) -> list[int]:
    """Raw sizes of the entities, the largest first."""
    owner = {address: number for number, members in enumerate(clusters) for address in members}
    sizes: dict[int | str, int] = {}
    for address, balance in balances:
        entity: int | str = owner.get(address, address)
        sizes[entity] = sizes.get(entity, 0) + balance
    return sorted(sizes.values(), reverse=True)


def gini_index(sizes: Sequence[int]) -> float:
    """Gini coefficient, 0 (equal) to 1; 0 without entities. ``sizes`` by falling size."""
    total, count = sum(sizes), len(sizes)
    if not total:
        return 0.0
    weighted = sum(place * size for place, size in enumerate(reversed(sizes), start=1))
    return (2 * weighted - (count + 1) * total) / (count * total)


def herfindahl_hirschman_index(sizes: Sequence[int]) -> float:
    """Sum of squared parts, above 0 to 1; 0 without entities."""
    total = sum(sizes)
    return sum(size * size for size in sizes) / (total * total) if total else 0.0


def nakamoto_coefficient(sizes: Sequence[int]) -> int:
    """Fewest entities that together hold half of what all entities hold; 0 without entities.

    Half of the entities' supply and not of the total, for where exchanges hold most of a token no number of entities
    reaches half of the total. ``sizes`` by falling size.
    """
    total, reached = sum(sizes), 0
    for place, size in enumerate(sizes, start=1):
        reached += size
        if 2 * reached >= total:
            return place
    return 0


def service_score(sizes: Sequence[int]) -> float | None:
    """0 (concentrated) to 100 (decentralised), two decimals; None below two entities, where it does not apply."""
    if len(sizes) < 2:
        return None
    return _score(herfindahl_hirschman_index(sizes))
