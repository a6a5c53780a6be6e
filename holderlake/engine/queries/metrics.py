"""Concentration among entities: Gini, Herfindahl-Hirschman, Nakamoto, and the service score. Pure integer algebra.

An entity is a cluster, or a holder outside clusters; exchanges, pools, contracts, hypernodes and burnt supply are left
out beforehand. All figures are over every holder, not only the top ones.

The service score, version 2 (``rules.SCORE_VERSION``), is ``100 * min(1, log10(1 / HHI) / 3)``: the number of equal
entities that would be as concentrated, on a scale where one is 0 and a thousand or more are 100. It never rises when
two entities merge, nor when a smaller one gives to a larger. Choice of HHI over Gini, which moves with dust: arXiv
2501.18279 and 2205.04256.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from holderlake.engine.numeric import aggregates
from holderlake.engine.numeric.bigint import digits_to_ints, to_ints
from holderlake.engine.queries.balances import Rows, largest

LARGEST: Final = 10
"""Entities told one by one where fewer are on the map."""


@dataclass(frozen=True)
class Concentration:
    """What the sizes of the entities of a map say; each figure is told by the function of its name."""

    gini_index: float
    herfindahl_hirschman_index: float
    nakamoto_coefficient: int
    service_score: float | None


@dataclass(frozen=True)
class Entities:
    """The entities of a map by falling size: the ``largest`` one by one, and exact sums over all ``count`` of them: of
    sizes, of squared sizes, and of sizes each times its place from 1 on. ``half`` is the first place at which half of
    the whole is reached."""

    largest: list[int]
    count: int
    whole: int
    squares: int
    weighted: int
    half: int


class Shown(NamedTuple):
    """The shown holders of a map: balances of all of them, the largest first, and of those that are in no cluster; and
    the clusters' amounts."""

    balances: list[int]
    alone: list[int]
    clusters: list[int]


def entities_of(sizes: Sequence[int]) -> Entities:
    """Entities of the sizes, which fall."""
    whole = sum(sizes)
    return Entities(
        list(sizes),
        len(sizes),
        whole,
        sum(size * size for size in sizes),
        sum(place * size for place, size in enumerate(sizes, start=1)),
        _reached_at(sizes, whole),
    )


def _reached_at(sizes: Sequence[int], whole: int) -> int:
    """The first place at which half of the whole is reached, 0 where it is not."""
    return next((place for place, reached in enumerate(accumulate(sizes), start=1) if 2 * reached >= whole), 0)


def entities_at(free: Rows, shown: Sequence[Shown]) -> list[Entities]:
    """The entities at each instant: clusters, and every ``free`` holder that is in none.

    ``shown`` are the free holders among whom clusters were looked for: the largest of all. So a cluster, which is
    larger than any of its members, stands before all who are not shown, and sums over these are told by the sums over
    all holders.
    """
    all_free, others = _crowds_at(free, len(shown)), _next_largest(free, [len(one.balances) for one in shown])
    return [_entities(*one) for one in zip(all_free, shown, others, strict=True)]


def _crowds_at(free: Rows, instants: int) -> list[Entities]:
    """The free holders at each instant as entities of one each, none of them told one by one."""
    size = -(-to_ints(free.balances[:1])[0].bit_length() // 32) if len(free.addresses) else 1
    counts, *sums, halves = aggregates.interval_aggregates(free.balances, size, free.firsts, free.lasts, instants)
    columns = (counts.tolist(), *map(digits_to_ints, sums), halves.tolist())
    return [Entities([], *one) for one in zip(*columns, strict=True)]


def _next_largest(free: Rows, known: Sequence[int]) -> list[list[int]]:
    """The largest holders at each instant after so many that are known."""
    instants, places = largest(free, len(known), max(known, default=0) + LARGEST)
    edges = np.searchsorted(instants, np.arange(len(known) + 1)).tolist()
    balances = to_ints(free.balances[places])
    return [balances[edges[one] + number : edges[one + 1]][:LARGEST] for one, number in enumerate(known)]


def _entities(crowd: Entities, shown: Shown, others: Sequence[int]) -> Entities:
    apart = entities_of(shown.balances)
    first = entities_of(sorted([*shown.alone, *shown.clusters], reverse=True))
    below = crowd.whole - apart.whole
    return Entities(
        [*first.largest, *others],
        crowd.count - apart.count + first.count,
        crowd.whole,
        crowd.squares - apart.squares + first.squares,
        crowd.weighted - apart.weighted + first.weighted + (first.count - apart.count) * below,
        _reached_at(first.largest, crowd.whole) or crowd.half - apart.count + first.count,
    )


def concentration_of(entities: Entities) -> Concentration:
    """All figures of the entities, exact whatever their number."""
    count, whole = entities.count, entities.whole
    # the smallest has place 1 in the definition, and the largest has it here
    from_smallest = (count + 1) * whole - entities.weighted
    index = entities.squares / (whole * whole) if whole else 0.0
    return Concentration(
        (2 * from_smallest - (count + 1) * whole) / (count * whole) if whole else 0.0,
        index,
        entities.half,
        None if count < 2 else _score(index),
    )


def _score(index: float) -> float:
    return round(100 * min(1.0, max(0.0, math.log10(1 / index) / 3)), 2)


def gini_index(sizes: Sequence[int]) -> float:
    """Gini coefficient, 0 (equal) to 1; 0 without entities. ``sizes`` by falling size."""
    return concentration_of(entities_of(sizes)).gini_index


def herfindahl_hirschman_index(sizes: Sequence[int]) -> float:
    """Sum of squared parts, above 0 to 1; 0 without entities."""
    return concentration_of(entities_of(sizes)).herfindahl_hirschman_index


def nakamoto_coefficient(sizes: Sequence[int]) -> int:
    """Fewest entities that together hold half of what all entities hold; 0 without entities.

    Half of the entities' supply and not of the total, for where exchanges hold most of a token no number of entities
    reaches half of the total. ``sizes`` by falling size.
    """
    return concentration_of(entities_of(sizes)).nakamoto_coefficient


def service_score(sizes: Sequence[int]) -> float | None:
    """0 (concentrated) to 100 (decentralised), two decimals; None below two entities, where it does not apply."""
    return concentration_of(entities_of(sizes)).service_score
