"""Concentration among groups, from exact integers: Gini, Herfindahl-Hirschman (HHI), Nakamoto, and the service score.

A group is a cluster, or a holder outside clusters. Exchanges, pools, contracts, hypernodes and burnt supply are not
groups. All holders count, not only the top ones.

The service score, version 2 (``rules.SCORE_VERSION``), is ``100 * min(1, log10(1 / HHI) / 3)``. ``1 / HHI`` is the
number of equal groups with the same concentration. One group scores 0; a thousand or more equal groups score 100.
The score never rises if two groups merge, or if a smaller one gives to a larger one. It uses HHI, because Gini
changes with dust (arXiv 2501.18279 and 2205.04256).
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
from holderlake.engine.queries.balance_rows import BalanceSpans, largest

LARGEST: Final = 10
"""Length of ``Groups.largest`` if a map has that many groups. It may be longer."""


@dataclass(frozen=True)
class Concentration:
    """The concentration among the groups of a map.

    - ``gini_index``: the Gini coefficient, from 0 (equal) to 1; 0 without groups.
    - ``herfindahl_hirschman_index``: the sum of the squares of the groups' parts of the total, at most 1; 0 without
      groups.
    - ``nakamoto_coefficient``: the least number of groups that hold half of the total; 0 without groups. The total
      is that of all groups and not the supply, because exchanges may hold most of the supply.
    - ``service_score``: from 0 (concentrated) to 100 (decentralised), two decimals; None with fewer than two groups.
    """

    gini_index: float
    herfindahl_hirschman_index: float
    nakamoto_coefficient: int
    service_score: float | None


@dataclass(frozen=True)
class Groups:
    """Sizes (raw balances) of a map's groups.

    ``largest`` has the largest sizes, in descending order. The other fields cover all ``count`` groups: ``total`` is
    the sum of the sizes, ``squares`` the sum of their squares, and ``weighted`` the sum of each size times its rank
    (from 1). ``half`` is the first rank at which the running sum of the sizes reaches half of the total; 0 without
    groups.
    """

    largest: list[int]
    count: int
    total: int
    squares: int
    weighted: int
    half: int


class Shown(NamedTuple):
    """Raw balances of a map's shown holders, the largest first.

    ``balances`` has all shown holders, ``alone`` those outside clusters, and ``clusters`` the sum of each cluster.
    """

    balances: list[int]
    alone: list[int]
    clusters: list[int]


def groups_of(sizes: Sequence[int]) -> Groups:
    """Return the ``Groups`` with these sizes (raw balances in descending order)."""
    total = sum(sizes)
    return Groups(
        list(sizes),
        len(sizes),
        total,
        sum(size * size for size in sizes),
        sum(rank * size for rank, size in enumerate(sizes, start=1)),
        _half_rank(sizes, total),
    )


def _half_rank(sizes: Sequence[int], total: int) -> int:
    """Return the first rank at which the running sum of ``sizes`` reaches half of ``total``, 0 if none does."""
    return next((rank for rank, reached in enumerate(accumulate(sizes), start=1) if 2 * reached >= total), 0)


def groups_at(free: BalanceSpans, shown_holders: Sequence[Shown]) -> list[Groups]:
    """Return the groups at each instant: the clusters, and every holder outside clusters.

    ``free`` has all holders that a map may show, ``shown_holders`` the largest of them at each instant.

    The sums over all holders are corrected for the clusters. A cluster consists of shown holders and is larger than
    each of its members, so it ranks before all holders that are not shown. Therefore only the shown holders' part of
    the sums changes.
    """
    all_free, next_balances = (
        _free_holders_at(free, len(shown_holders)),
        _next_largest(free, [len(holders.balances) for holders in shown_holders]),
    )
    return [_groups(*values) for values in zip(all_free, shown_holders, next_balances, strict=True)]


def _free_holders_at(free: BalanceSpans, instants: int) -> list[Groups]:
    """Return the sums over all balances of ``free`` at each instant. Each holder is one group, ``largest`` is empty.

    ``instants`` is the number of instants.
    """
    size = -(-to_ints(free.balances[:1])[0].bit_length() // 32) if len(free.addresses) else 1
    counts, *sums, halves = aggregates.interval_aggregates(free.balances, size, free.firsts, free.lasts, instants)
    columns = (counts.tolist(), *map(digits_to_ints, sums), halves.tolist())
    return [Groups([], *sums) for sums in zip(*columns, strict=True)]


def _next_largest(free: BalanceSpans, skipped_counts: Sequence[int]) -> list[list[int]]:
    """Return for each instant up to ``LARGEST`` balances in descending order, without the largest ones.

    ``skipped_counts`` has for each instant the number of largest balances to leave out.
    """
    instants, places = largest(free, len(skipped_counts), max(skipped_counts, default=0) + LARGEST)
    edges = np.searchsorted(instants, np.arange(len(skipped_counts) + 1)).tolist()
    balances = to_ints(free.balances[places])
    return [
        balances[edges[instant] + number : edges[instant + 1]][:LARGEST]
        for instant, number in enumerate(skipped_counts)
    ]


def _groups(all_free: Groups, shown_holders: Shown, next_balances: Sequence[int]) -> Groups:
    """Return the groups of one instant: the clusters, and each holder outside clusters.

    ``all_free`` has the sums over all holders that a map may show, computed as if there were no clusters.
    ``shown_holders`` has the balances of the shown holders and of their clusters. ``next_balances`` are those of the
    largest holders that are not shown.
    """
    single = groups_of(shown_holders.balances)
    clustered = groups_of(sorted([*shown_holders.alone, *shown_holders.clusters], reverse=True))
    below = all_free.total - single.total
    return Groups(
        [*clustered.largest, *next_balances],
        all_free.count - single.count + clustered.count,
        all_free.total,
        all_free.squares - single.squares + clustered.squares,
        all_free.weighted - single.weighted + clustered.weighted + (clustered.count - single.count) * below,
        _half_rank(clustered.largest, all_free.total) or all_free.half - single.count + clustered.count,
    )


def concentration_of(groups: Groups) -> Concentration:
    """Return all metrics of the groups."""
    count, total = groups.count, groups.total
    # the definition ranks the smallest group first, and ``weighted`` the largest
    from_smallest = (count + 1) * total - groups.weighted
    index = groups.squares / (total * total) if total else 0.0
    return Concentration(
        (2 * from_smallest - (count + 1) * total) / (count * total) if total else 0.0,
        index,
        groups.half,
        None if count < 2 else _score(index),
    )


def _score(index: float) -> float:
    return round(100 * min(1.0, max(0.0, math.log10(1 / index) / 3)), 2)
