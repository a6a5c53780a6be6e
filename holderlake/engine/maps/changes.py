"""Compare a token at two instants: the balances of all its holders, and the clusters of the two maps (``lineage``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.tables import column
from holderlake.core.contract.times import to_unix
from holderlake.engine.maps.clusters import Cluster
from holderlake.engine.maps.graph import graph_as_of
from holderlake.engine.numeric.bigint import to_ints
from holderlake.engine.queries.balance_rows import read_balances
from holderlake.engine.queries.balances import Balances, largest_balances, no_holders, supported_token
from holderlake.engine.queries.tables import built
from holderlake.engine.records import TokenInfo
from holderlake.engine.store.store import Store

HOLDER_CHANGES: Final = pa.schema(
    [
        column("address", pa.string(), "The holder"),
        column("change", pa.string(), "entered (held nothing before), left (holds nothing after), grew or shrank"),
        column("amount_before_raw", pa.string(), "Balance before, raw integer"),
        column("amount_after_raw", pa.string(), "Balance after, raw integer"),
        column("amount_change_raw", pa.string(), "After less before, raw integer with its sign"),
        column("rank_before", pa.int64(), "Rank among all holders before", required=False),
        column("rank_after", pa.int64(), "Rank among all holders after", required=False),
        column("share_before", pa.float64(), "Part of the total supply before, 0 to 1"),
        column("share_after", pa.float64(), "Part of the total supply after, 0 to 1"),
    ]
)

CHANGE_COUNTS: Final = pa.schema(
    [
        column("entered", pa.int64(), "Holders that held nothing before"),
        column("left", pa.int64(), "Holders that hold nothing after"),
        column("grew", pa.int64(), "Holders of more than before"),
        column("shrank", pa.int64(), "Holders of less than before"),
        column("same", pa.int64(), "Holders of as much as before"),
        column("holders_before", pa.int64(), "All holders before"),
        column("holders_after", pa.int64(), "All holders after"),
    ]
)

CLUSTER_CHANGES: Final = pa.schema(
    [
        column("change", pa.string(), "born, died, same, grew, shrank, changed, merged or split"),
        column("clusters_before", pa.list_(pa.int64()), "Numbers on the map before, none for a cluster born"),
        column("clusters_after", pa.list_(pa.int64()), "Numbers on the map after, none for a cluster that died"),
        column("share_before", pa.float64(), "Part of the supply of clusters_before together, 0 to 1"),
        column("share_after", pa.float64(), "Part of the supply of clusters_after together, 0 to 1"),
        column("holders_before", pa.int64(), "Holders of clusters_before together"),
        column("holders_after", pa.int64(), "Holders of clusters_after together"),
        column("shared_holders", pa.int64(), "Holders that are in a cluster both before and after"),
    ]
)

_BOTH_BALANCES: Final = """
-- All addresses that hold the token at either instant. Balances below zero, from a lossy history, count as zero.
WITH held AS (
    SELECT
        address,
        coalesce(before.balance, '0')::BIGNUM AS early,
        coalesce(after.balance, '0')::BIGNUM AS late
    FROM before FULL JOIN after USING (address)
)
SELECT
    address,
    early::VARCHAR AS amount_before_raw,
    late::VARCHAR AS amount_after_raw,
    CASE WHEN early > 0::BIGNUM THEN row_number() OVER (ORDER BY early DESC, address) END AS rank_before,
    CASE WHEN late > 0::BIGNUM THEN row_number() OVER (ORDER BY late DESC, address) END AS rank_after,
    CASE
        WHEN early = late THEN 'same'
        WHEN early = 0::BIGNUM THEN 'entered'
        WHEN late = 0::BIGNUM THEN 'left'
        WHEN early < late THEN 'grew'
        ELSE 'shrank'
    END AS change,
    $supply_before AS supply_before,
    $supply_after AS supply_after
FROM held
"""

_COUNTS: Final = """
SELECT
    count(*) FILTER (change = 'entered') AS entered,
    count(*) FILTER (change = 'left') AS "left",
    count(*) FILTER (change = 'grew') AS grew,
    count(*) FILTER (change = 'shrank') AS shrank,
    count(*) FILTER (change = 'same') AS same,
    count(rank_before) AS holders_before,
    count(rank_after) AS holders_after
FROM held
"""

_MOST_CHANGED: Final = """
WITH changed AS (
    SELECT *, amount_before_raw::BIGNUM AS early, amount_after_raw::BIGNUM AS late
    FROM held
    WHERE change <> 'same'
)
SELECT * EXCLUDE (early, late), (late - early)::VARCHAR AS amount_change_raw
FROM changed
-- DuckDB 2.0 prints -x correctly but compares it wrongly if x exceeds 64 bits, so the sort key is a difference
ORDER BY CASE WHEN early < late THEN late - early ELSE early - late END DESC, address
LIMIT $most
"""
_NO_CLUSTER: Final = [2**63]
"""Sort key of a change without a later cluster, so that it comes last."""


def map_changes(
    store: Store,
    chain: str,
    token_address: str,
    earlier_instant: datetime,
    later_instant: datetime,
    options: MapOptions,
    limit: int,
) -> dict[str, pa.Table]:
    """Compare a token at two instants. Return the tables ``holders``, ``counts`` and ``clusters``.

    ``earlier_instant`` must be before ``later_instant``. The schemas are ``HOLDER_CHANGES``, ``CHANGE_COUNTS`` and
    ``CLUSTER_CHANGES``.

    - ``holders`` has the ``limit`` largest changes of a balance, up or down, by raw amount, then by address. Unchanged
      balances are left out.
    - ``counts`` is one row, over all holders: the number of holders by kind of change.
    - ``clusters`` compares the clusters of the two maps by the balances of their common holders. Both maps have
      ``options.limit`` top holders and use the current labels and rules. ``lineage`` defines the changes and their
      order.

    If the token has no holders at one instant, all holders at the other instant count as entered or left. Raises
    ``UnknownToken``, ``UnsupportedToken``, or ``NoHolders`` if it has no holders at either instant.
    """
    token = supported_token(store, chain, token_address)
    both_balances = _both_balances(store, token, earlier_instant, later_instant)
    if not both_balances.num_rows:
        raise no_holders(token, later_instant)
    earlier, later = (_side(store, token, as_of, options) for as_of in (earlier_instant, later_instant))
    return {
        "holders": built(HOLDER_CHANGES, _holder_rows(store, both_balances, limit)),
        "counts": store.query(_COUNTS, tables={"held": both_balances}).cast(CHANGE_COUNTS),
        "clusters": built(CLUSTER_CHANGES, _cluster_rows(earlier, later)),
    }


def _both_balances(store: Store, token: TokenInfo, earlier_instant: datetime, later_instant: datetime) -> pa.Table:
    view, tables, supplies = store.view(), {}, {}
    for name, as_of in (("before", earlier_instant), ("after", later_instant)):
        holdings = read_balances(view, (token.chain, token.address), np.array([to_unix(as_of)]))
        texts, balances = view.dictionary.text_array(holdings.rows.addresses), map(str, to_ints(holdings.rows.balances))
        tables[name] = pa.table({"address": texts.cast(pa.string()), "balance": pa.array(balances, pa.string())})
        supplies[f"supply_{name}"] = str(holdings.supplies[0])
    return store.query(_BOTH_BALANCES, supplies, tables)


def _holder_rows(store: Store, both_balances: pa.Table, limit: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = store.query(_MOST_CHANGED, {"most": limit}, {"held": both_balances}).to_pylist()
    for row in rows:
        for side in ("before", "after"):
            supply = int(row.pop(f"supply_{side}") or 0)
            row[f"share_{side}"] = Balances(supply, [], []).share(int(row[f"amount_{side}_raw"]))
    return rows


@dataclass(frozen=True)
class _Side:
    """The clusters of one of the two maps, the largest first, and the balances for computing the clusters' shares."""

    balances: Balances
    clusters: Sequence[Cluster]

    @property
    def members(self) -> list[Members]:
        """The clusters with the balances of their holders."""
        balance_of = dict(self.balances.holders)
        return [
            Members({holder: balance_of[holder] for holder in cluster.holders}, self.balances.share(cluster.amount))
            for cluster in self.clusters
        ]

    def holders(self, numbers: Collection[int]) -> set[str]:
        return {holder for number in numbers for holder in self.clusters[number - 1].holders}

    def share(self, numbers: Collection[int]) -> float:
        return self.balances.share(sum(self.clusters[number - 1].amount for number in numbers))


def _side(store: Store, token: TokenInfo, as_of: datetime, options: MapOptions) -> _Side:
    largest = largest_balances(store, token.chain, token.address, as_of, options.limit)
    return _Side(largest, graph_as_of(store, token, largest, as_of, options).clusters if largest.holders else [])


def _cluster_rows(earlier: _Side, later: _Side) -> list[dict[str, Any]]:
    changes = lineage(earlier.members, later.members)
    return [
        {
            "change": change.change,
            "clusters_before": change.clusters_before,
            "clusters_after": change.clusters_after,
            "share_before": earlier.share(change.clusters_before),
            "share_after": later.share(change.clusters_after),
            "holders_before": len(earlier.holders(change.clusters_before)),
            "holders_after": len(later.holders(change.clusters_after)),
            "shared_holders": len(earlier.holders(change.clusters_before) & later.holders(change.clusters_after)),
        }
        for change in changes
    ]


class Members(NamedTuple):
    """A cluster: the raw balance of each of its holders, and its share of the supply."""

    amounts: Mapping[str, int]
    share: float


Clusters = Sequence[Members]
"""The clusters of a map. They have no holder in common. The number of a cluster is its position, counted from 1."""


@dataclass(frozen=True)
class ClusterChange:
    """A change, and the clusters that it concerns.

    ``clusters_before`` has the ascending cluster numbers on the earlier map, ``clusters_after`` those on the later map.
    Two clusters are related if at least half of the earlier cluster's amount belonged to holders that are in the later
    cluster, or at least half of the later cluster's amount belongs to holders that were in the earlier cluster.
    ``change`` is one of:

    - ``merged``: a later cluster is related to two or more earlier ones.
    - ``split``: an earlier cluster is related to two or more later ones.
    - ``grew``, ``shrank``: two clusters are related to each other only, and the share of the later one is larger or
      smaller.
    - ``same``: two clusters are related to each other only, with equal shares and the same holders.
    - ``changed``: as ``same``, but some holders differ.
    - ``born``: a later cluster is related to no earlier one.
    - ``died``: an earlier cluster is related to no later one.
    """

    change: str
    clusters_before: list[int]
    clusters_after: list[int]


def lineage(earlier: Clusters, later: Clusters) -> list[ClusterChange]:
    """Return the changes from the clusters ``earlier`` to the clusters ``later``.

    Changes are sorted by later cluster, then by earlier cluster. Clusters that died come last. Each cluster is in at
    least one change. A cluster can be in several changes, for example if one part of it splits off and another one
    merges.
    """
    return sorted(
        _changes(earlier, later),
        key=lambda change: (change.clusters_after or _NO_CLUSTER, change.clusters_before, change.change),
    )


def _changes(earlier: Clusters, later: Clusters) -> Iterator[ClusterChange]:
    pairs = _related(earlier, later)
    for number in range(1, len(later) + 1):
        origins = [origin for origin, heir in pairs if heir == number]
        if not origins:
            yield ClusterChange("born", [], [number])
        elif len(origins) > 1:
            yield ClusterChange("merged", origins, [number])
    for number, cluster in enumerate(earlier, start=1):
        heirs = [heir for origin, heir in pairs if origin == number]
        if not heirs:
            yield ClusterChange("died", [number], [])
        elif len(heirs) > 1:
            yield ClusterChange("split", [number], heirs)
        elif sum(heir == heirs[0] for _, heir in pairs) == 1:
            yield ClusterChange(_growth(cluster, later[heirs[0] - 1]), [number], heirs)


def _related(earlier: Clusters, later: Clusters) -> list[tuple[int, int]]:
    """Return the pairs of related clusters, sorted: the number of the earlier one and the number of the later one."""
    number_of = {holder: number for number, cluster in enumerate(later, start=1) for holder in cluster.amounts}
    earlier_amounts: defaultdict[tuple[int, int], int] = defaultdict(int)
    later_amounts: defaultdict[tuple[int, int], int] = defaultdict(int)
    for number, cluster in enumerate(earlier, start=1):
        for holder, amount in cluster.amounts.items():
            if heir := number_of.get(holder):
                earlier_amounts[number, heir] += amount
                later_amounts[number, heir] += later[heir - 1].amounts[holder]
    return sorted(
        (origin, heir)
        for origin, heir in earlier_amounts
        if 2 * earlier_amounts[origin, heir] >= sum(earlier[origin - 1].amounts.values())
        or 2 * later_amounts[origin, heir] >= sum(later[heir - 1].amounts.values())
    )


def _growth(earlier: Members, later: Members) -> str:
    if earlier.share != later.share:
        return "grew" if later.share > earlier.share else "shrank"
    return "same" if earlier.amounts.keys() == later.amounts.keys() else "changed"
