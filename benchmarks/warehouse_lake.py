"""A lake of any size for ``benchmarks.warehouse``: holders that come, go and trade, their clusters and transfers.

Rows are made by arithmetic, and written by the lake's own writer, a partition a chain and day.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from holderlake.core.contract.chains import KNOWN_CHAINS
from holderlake.core.contract.tables import AMOUNT_TYPE, INSTANT_TYPE, TABLES
from holderlake.core.lake.lake import Lake, PartitionUpdate

FIRST_DAY = datetime(2025, 1, 1)
_CLUSTER = 5
_CLUSTERED = 0.4
_DELAY = timedelta(minutes=7)
"""Time between an instant and the fetch of its rows."""
_CHURN = 0.04
_DECIMALS = 9
_MOST = 9e9


@dataclass(frozen=True)
class Size:
    """The size of the lake; transfers are rows of ``grouped_transfers`` a token and day."""

    chains: int = 4
    tokens: int = 5
    days: int = 60
    holders: int = 80
    transfers: int = 70


def make_lake(root: Path, size: Size) -> Lake:
    """Write missing partitions; chains are written by as many processes as there are processors."""
    chains = list(KNOWN_CHAINS)[: size.chains]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_write_chain, [root] * len(chains), chains, [size] * len(chains)))
    return Lake(root)


class _Token:
    """The holders of one token through time: twice as many wallets as are listed, with amounts that change daily."""

    def __init__(self, seed: int, size: Size) -> None:
        self.random = np.random.default_rng(seed)
        self.size = size
        self.address = self._addresses(1)[0].as_py()
        self.pool = self._addresses(2 * size.holders)
        self.amounts = self.random.pareto(1.2, 2 * size.holders) + 0.01
        self.cex = self.random.random(2 * size.holders) < 0.02
        self.groups = self.random.integers(0, max(1, round(2 * size.holders * _CLUSTERED / _CLUSTER)), 2 * size.holders)
        self.groups[self.random.random(2 * size.holders) > _CLUSTERED] = -1
        wallets = 2 * size.holders
        pairs = self.random.choice(wallets * (wallets - 1), size.transfers, replace=False)
        senders, offsets = np.divmod(pairs, wallets - 1)
        self.ends = np.stack([senders, (senders + 1 + offsets) % wallets])
        self.first = self.random.integers(0, 10**7, self.ends.shape[1])
        self.values = self.random.pareto(1.1, self.ends.shape[1]) * 1000
        self.counts = self.random.integers(1, 50, self.ends.shape[1])

    def _addresses(self, count: int) -> pa.Array:
        digits = self.random.bytes(20 * count).hex()
        return pa.array([f"0x{digits[40 * number : 40 * number + 40]}" for number in range(count)])

    def live(self) -> None:
        """Advance by one day: change the wallets' amounts."""
        self.amounts *= np.exp(self.random.normal(0, 0.05, len(self.amounts)))
        moved = self.random.random(len(self.groups)) < _CHURN / 10
        self.groups[moved] = self.random.permutation(self.groups[moved])
        sent = self.random.random(len(self.values)) < 0.3
        self.values[sent] *= 1.02
        self.counts[sent] += 1

    def tables(self, chain: str, day: datetime) -> dict[str, pa.Table]:
        """Return the token's rows of one day, by table: holders and a map."""
        listed = np.argsort(-self.amounts, kind="stable")[: self.size.holders]
        shares = self.amounts[listed] / self.amounts.sum()
        common = {"chain": chain, "as_of": day, "token_address": self.address}
        who = {
            "address": self.pool.take(pa.array(listed)),
            "rank": np.arange(1, len(listed) + 1),
            "share": shares,
            "amount": _decimals(self.amounts[listed] * 1e3),
            "degree": listed * 3 + 1,
            "inward_relations": listed * 2 + 1,
            "outward_relations": listed,
            "is_supernode": np.zeros(len(listed), bool),
            "is_contract": np.zeros(len(listed), bool),
            "is_cex": self.cex[listed],
            "is_dex": np.zeros(len(listed), bool),
            "is_paid_label": np.zeros(len(listed), bool),
        }
        nodes = who | {"kind": pa.array(["top_holder"] * len(listed)), "is_shown_on_map": ~self.cex[listed]}
        return {
            "holders": _table("holders", common, who),
            "maps": _table("maps", common, self._map(day, shares)),
            "map_nodes": _table("map_nodes", common, nodes),
            "grouped_transfers": _table("grouped_transfers", common, self._transfers(chain, day)),
            **self._clusters(common, listed, shares),
        }

    def _map(self, day: datetime, shares: np.ndarray) -> dict[str, object]:
        squares = float((shares**2).sum())
        return {
            "dt_update": [day.isoformat(timespec="microseconds")],
            "cexs": [float(shares[:3].sum())],
            "dexs": [0.0],
            "contracts": [0.0],
            "fresh_wallets": [0.01],
            "top_10_adjusted": [float(shares[:10].sum())],
            "bundles": [0.1],
            "service_score": [round(100 * (1 - squares**0.5), 2)],
            "gini_index": [0.5],
            "herfindahl_hirschman_index": [squares],
            "nakamoto_coefficient": [int((np.cumsum(shares) < 0.5).sum()) + 1],
        }

    def _transfers(self, chain: str, day: datetime) -> dict[str, object]:
        senders, receivers = self.ends
        count = len(senders)
        first = np.datetime64(FIRST_DAY, "us") - self.first.astype("timedelta64[s]")
        last = np.datetime64(day, "us") - (self.first * 7919 % 86400).astype("timedelta64[s]")
        return {
            "from_address": self.pool.take(pa.array(senders)),
            "to_address": self.pool.take(pa.array(receivers)),
            "rel_type": pa.array(["GROUPED_TRANSFER"] * count),
            "transfer_chain": pa.array([chain] * count),
            "transfer_token": pa.array([self.address] * count),
            "total_value": _decimals(self.values),
            "total_transfers": self.counts,
            "first_date": pa.array(first, INSTANT_TYPE),
            "last_date": pa.array(last, INSTANT_TYPE),
        }

    def _clusters(self, common: dict[str, object], listed: np.ndarray, shares: np.ndarray) -> dict[str, pa.Table]:
        groups = self.groups[listed]
        names, counts = np.unique(groups[groups >= 0], return_counts=True)
        names = names[counts > 1]
        weights = np.array([shares[groups == name].sum() for name in names])
        order = np.argsort(-weights, kind="stable")
        number = {int(names[place]): position for position, place in enumerate(order, 1)}
        inside = np.isin(groups, names)
        summary = {
            "cluster_id": np.arange(1, len(names) + 1),
            "share": weights[order],
            "amount": _decimals(weights[order] * 1e9),
            "holder_count": np.array([(groups == names[place]).sum() for place in order], int),
            "magic_node_count": np.zeros(len(names), int),
        }
        members = {
            "cluster_id": np.array([number[int(group)] for group in groups[inside]], int),
            "address": self.pool.take(pa.array(listed[inside])),
            "kind": pa.array(["holder"] * int(inside.sum()), pa.string()),
        }
        return {
            "clusters": _table("clusters", common, summary),
            "cluster_members": _table("cluster_members", common, members),
        }


def _write_chain(root: Path, chain: str, size: Size) -> None:
    lake = Lake(root)
    number = list(KNOWN_CHAINS).index(chain)
    tokens = [_Token(1000 * number + place, size) for place in range(size.tokens)]
    addresses = {token.address for token in tokens}
    for day in (FIRST_DAY + timedelta(days=passed) for passed in range(size.days)):
        made = [token.tables(chain, day) for token in tokens]
        for token in tokens:
            token.live()
        if lake.manifest("maps", chain, day):
            continue
        tables = {name: pa.concat_tables([one[name] for one in made]) for name in made[0]}
        covered = dict.fromkeys(addresses, day + _DELAY)
        for family, some in (("holders", {"holders": tables.pop("holders")}), ("maps", tables)):
            lake.write(
                PartitionUpdate(
                    family,
                    chain,
                    day,
                    some,
                    provider="benchmark",
                    by="token",
                    requested=addresses,
                    covered=covered,
                    options={},
                )
            )


def _decimals(values: np.ndarray) -> pa.Array:
    """Return the numbers as exact decimals with nine decimal places."""
    whole = pa.array((np.minimum(values, _MOST) * 10**_DECIMALS).astype(np.int64)).cast(pa.decimal128(19, 0))
    return pa.Array.from_buffers(pa.decimal128(38, _DECIMALS), len(whole), whole.buffers()).cast(AMOUNT_TYPE)


def _table(name: str, common: dict[str, object], columns: dict[str, object]) -> pa.Table:
    schema = TABLES[name].schema
    count = len(next(iter(columns.values())))  # type: ignore[arg-type] - arrays and lists
    given = common | {"fetched_at": common["as_of"] + _DELAY}  # type: ignore[operator] - an instant
    arrays = []
    for field in schema:
        values = columns.get(field.name)
        if values is None:
            shared = given.get(field.name)
            arrays.append(
                pa.nulls(count, field.type) if shared is None else pa.repeat(pa.scalar(shared, field.type), count)
            )
        else:
            arrays.append(values if isinstance(values, pa.Array) else pa.array(values, field.type))
    return pa.table(arrays, schema=schema)
