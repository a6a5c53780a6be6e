"""How often entities are right: pairwise precision and recall on published groups of wallets and on made worlds.

    python -m benchmarks.clusters                                         # made worlds
    python -m benchmarks.clusters --groups FOLDER --labels FOLDER         # published groups, and labels of others
    python -m benchmarks.clusters --part calibrate --groups FOLDER        # the confidences in entities/kinds.py
    python -m benchmarks.clusters --histories FOLDER                      # the largest entities of real histories
    python -m benchmarks.clusters --wallets 1000000                       # seconds and memory, and one map

Precision is the share of the pairs of wallets in one entity that have one owner; recall is the share of the pairs with
one owner that are in one entity. Wallets whose owner is not known do not count. Intervals are those of 95 % of 1,000
draws of owners with replacement. Of published groups, only pairs count that the edges connect within four hops, and
groups of more than 2,000 wallets are left out.

Owners and seeds are split into three parts: rules were chosen on the first one, confidences follow from the second
one, and figures are those of the third one. The edges of one chain are a collection: the parts that choose and
calibrate have the chains in ``_DEVELOPMENT`` only, and all other chains, in any folder, are kept out. ``--part all``
takes all groups of a folder that chose nothing. A folder may have labels of its publishers (``labels.parquet``), which
say which wallets are in no group; other labels (``--labels``) do not know the groups.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.worlds import BEGIN, YEAR, World, make_world, write_crowd
from holderlake.analysis.entities.calibration import calibrated, measured_pairs
from holderlake.analysis.entities.clusters import FOLDER
from holderlake.analysis.entities.kinds import LEAST_CONFIDENCE, LEVELS, MAX_COUNTERPARTIES, Level
from holderlake.analysis.entities.links import ENTITIES, JOINS, LINKS, MARKED, AnyArray, connected, find_entities
from holderlake.analysis.entities.sources import file_marks
from holderlake.core.contract import exact_json
from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.requests import MapOptions, MapRequest
from holderlake.core.contract.times import from_unix
from holderlake.engine.records import TRANSFERS
from holderlake.engine.store.store import Store
from holderlake.service.api import extra_answers
from holderlake.service.api.answers import token_map
from holderlake.service.extra_requests import OwnersOptions, OwnersRequest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS: Final = ("choose", "calibrate", "test")
_SEEDS: Final = dict(zip((*PARTS, "all"), (range(1, 4), range(11, 14), *2 * [range(21, 31)]), strict=True))
_DEVELOPMENT: Final = ("ethereum", "xdai")
"""Chains whose edges may choose rules and confidences. All others are kept out."""
_LATE: Final = " without the first quarter"
"""Histories that begin late. No confidence follows from them."""
_SIZES: Final = ((2, 5), (6, 30), (31, _MAX_GROUP := 2_000))
"""Numbers of wallets of an owner, from and to, for which recalls are reported apart."""
_THRESHOLDS: Final = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_DRAWS: Final = 1_000
_HELD: Final = """
WITH gifts AS (
    SELECT
        crowd.to_address,
        CAST(1e12 + hash(crowd.to_address) % 1000000000000 * (CASE WHEN joined THEN 1e6 ELSE 1 END) AS HUGEINT) AS value
    FROM (SELECT DISTINCT to_address FROM read_parquet($crowd)) AS crowd
    LEFT JOIN (SELECT address, hash(entity) % 100 = 0 AS joined FROM read_parquet($entities)) AS entities
        ON entities.address = crowd.to_address
),
moves AS (
    FROM read_parquet($crowd)
    UNION ALL BY NAME
    SELECT
        'eth' AS chain,
        'native' AS token_address,
        $zero AS from_address,
        to_address,
        value,
        $begin AS block_time,
        '0x' || md5(to_address) || md5('mint') AS tx_hash
    FROM gifts
)
SELECT
    chain,
    token_address,
    'native' AS token_standard,
    from_address,
    to_address,
    CAST(value AS VARCHAR) AS value,
    CAST(NULL AS VARCHAR) AS token_id,
    block_time // 12 AS block_number,
    block_time,
    tx_hash,
    row_number() OVER () AS log_index,
    'exact' AS time_kind,
    'exact' AS log_index_kind,
    'benchmark' AS source
FROM moves
"""
"""The crowd's transfers, after one mint to each wallet: most to the wallets of a hundredth of the entities."""
_LIMIT: Final = 500
_MAPS: Final = 20


@dataclass
class Sample:
    """Transfers of wallets whose owner is known. Samples of one kind of ``data`` are pooled for confidences.

    ``strangers`` are wallets of other owners, of which ``crowds`` have more wallets than an owner has. ``near`` has the
    pairs of each owner that could be found; without it, all pairs of an owner count.
    """

    name: str
    data: str
    transfers: str
    marked: pa.Table
    owners: dict[str, object]
    strangers: dict[str, object]
    near: Mapping[object, Sequence[tuple[str, str]]] | None = None
    crowds: Collection[object] = ()


def worlds(folder: Path, part: str, owners: int) -> list[Sample]:
    """Return made worlds of a part: with times, without the transfers of the first quarter of the year, without times,
    and as bare edges."""
    samples = []
    for seed in _SEEDS[part]:
        world = make_world(owners, seed)
        table = world.table()
        later = table.filter(pc.greater_equal(table["block_time"], BEGIN + YEAR // 4))
        for name, rows in {
            "": table,
            _LATE: later,
            " without times": table.drop_columns("block_time"),
            " as bare edges": table.select(["from_address", "to_address"]),
        }.items():
            path = folder / f"{seed}{name}.parquet"
            pq.write_table(rows, path)
            samples.append(
                Sample(f"world {seed}{name}", f"worlds{name}", str(path), _marked(world), dict(world.owners), {})
            )
    return samples


def groups(folder: Path, part: str, labels: Path | None, scratch: Path) -> list[Sample]:
    """Return the published groups of a part over the edges of each chain, and over those of all chains.

    Each is without labels, with labels of others, and with those of the publishers. The parts that choose and calibrate
    have chains of ``_DEVELOPMENT`` only. Edges of one chain are written to ``scratch``.
    """
    table = pq.read_table(folder / "groups.parquet")
    owner = dict(zip(table["address"].to_pylist(), table["group"].to_pylist(), strict=True))
    crowds = {group for group, wallets in Counter(owner.values()).items() if wallets > _MAX_GROUP}
    mine = {wallet: group for wallet, group in owner.items() if group not in crowds and part in {_part(group), "all"}}
    others = {wallet: group for wallet, group in owner.items() if wallet not in mine}
    marks = {"without labels": MARKED.empty_table()}
    if labels:
        marks["labels of others"] = _labels_of_others(labels)
    if (folder / "labels.parquet").exists():
        published = pq.read_table(folder / "labels.parquet")
        is_exchange = [kind == "exchange" for kind in published["kind"].to_pylist()]
        marks["labels of the publishers"] = pa.table([published["address"], pa.array(is_exchange, pa.bool_())], MARKED)
    edges = pq.read_table(folder / "edges.parquet")
    samples = []
    for chain in (*sorted(set(edges["chain"].to_pylist())), "all chains"):
        is_development = chain in _DEVELOPMENT
        if part in PARTS[:2] and not is_development:
            continue
        rows = edges if chain == "all chains" else edges.filter(pc.equal(edges["chain"], chain))
        path = scratch / f"{folder.name} {chain}.parquet"
        pq.write_table(rows, path)
        near = near_pairs(path, mine)
        data = "development" if is_development else chain if chain == "all chains" else "kept out"
        samples += [
            Sample(f"{chain}, {name}", f"groups, {data}, {name}", str(path), marked, mine, others, near, crowds)
            for name, marked in marks.items()
            if any(near.values())
        ]
    return samples


def _part(group: object) -> str:
    """Return the part of a group. The last bit of the hash chose the half that is public."""
    return PARTS[int(sha256(str(group).encode()).hexdigest(), 16) // 2 % len(PARTS)]


def _labels_of_others(folder: Path) -> pa.Table:
    """Return the addresses with labels of block explorers, but for those that name wallets of such groups."""
    marked: dict[str, bool] = {}
    for file in ("etherscan_accounts.json.gz", "bscscan_accounts.json.gz"):
        with gzip.open(folder / file, "rt", encoding="utf-8") as text:
            for address, account in json.load(text).items():
                names = {label.lower() for label in account.get("labels") or ()}
                if "airdrop-hunter" not in names:
                    marked[address.lower()] = "exchange" in names
    return pa.table([list(marked), list(marked.values())], MARKED)


@dataclass(frozen=True)
class Score:
    """Pairs of each owner: with the same entity (``right``), in one entity with another owner's wallet (half of
    ``wrong``, as each such pair belongs to two owners), and in all; pairs that could be found, and the share of those
    that were (``recalls``), with the number of the owner's wallets (``sizes``).
    """

    right: AnyArray
    wrong: AnyArray
    pairs: AnyArray
    recalls: AnyArray
    sizes: AnyArray
    largest: int

    @property
    def figures(self) -> tuple[float, float, float]:
        """Precision, recall, and the mean of the recalls of owners."""
        precision = self.right.sum() / max(1, self.right.sum() + self.wrong.sum())
        return precision, (self.recalls * self.pairs).sum() / self.pairs.sum(), self.recalls.mean()

    def of_sizes(self) -> str:
        """Return the mean of recalls by the number of an owner's wallets."""
        parts = []
        for low, high in _SIZES:
            of_size = self.recalls[(self.sizes >= low) & (self.sizes <= high)]
            if len(of_size):
                parts.append(f"{of_size.mean():.3f} of {len(of_size)} owners with {low} to {high} wallets")
        return ", ".join(parts)

    def text(self) -> str:
        """Return the figures with their intervals."""
        draws = np.random.default_rng(1).integers(0, len(self.right), (_DRAWS, len(self.right)))
        with np.errstate(invalid="ignore"):
            precision = self.right.sum() / (self.right.sum() + self.wrong.sum())
            precisions = self.right[draws].sum(1) / (self.right[draws].sum(1) + self.wrong[draws].sum(1))
        _, recall, mean = self.figures
        owners = np.random.default_rng(2).integers(0, len(self.recalls), (_DRAWS, len(self.recalls)))
        pairs = self.pairs[owners]
        return (
            f"precision {precision:.4f} {_interval(precisions)}, "
            f"recall {recall:.3f} {_interval((self.recalls[owners] * pairs).sum(1) / pairs.sum(1))}, "
            f"mean over owners {mean:.3f} {_interval(self.recalls[owners].mean(1))}, largest {self.largest:,}"
        )


def _interval(draws: AnyArray) -> str:
    low, high = np.nanquantile(draws, (0.025, 0.975))
    return f"[{low:.3f}, {high:.3f}]"


def score(sample: Sample, entity: Mapping[str, int]) -> Score:
    """Compare entities with owners."""
    members = _grouped(sample.owners)
    owners_of: dict[int, Counter[object]] = defaultdict(Counter)
    for wallet, owner in (*sample.owners.items(), *sample.strangers.items()):
        if wallet in entity:
            owners_of[entity[wallet]][owner] += 1
    right: Counter[object] = Counter()
    wrong: Counter[object] = Counter()
    for wallets in owners_of.values():
        for owner, count in wallets.items():
            right[owner] += count * (count - 1) // 2
            wrong[owner] += count * (wallets.total() - count)
    pairs = {
        owner: list(combinations(wallets, 2)) if sample.near is None else sample.near[owner]
        for owner, wallets in members.items()
    }
    several = [owner for owner, some in pairs.items() if some]
    is_found = {
        owner: sum(one in entity and entity[one] == entity.get(other) for one, other in pairs[owner])
        for owner in several
    }
    return Score(
        np.array([right[owner] for owner in members]),
        np.array([wrong[owner] / 2 for owner in members]),
        np.array([len(pairs[owner]) for owner in several]),
        np.array([is_found[owner] / len(pairs[owner]) for owner in several]),
        np.array([len(members[owner]) for owner in several]),
        max(Counter(entity.values()).values(), default=0),
    )


def entities_at(folder: Path, confidence: float) -> dict[str, int]:
    """Return the entity of each wallet that joins of at least a confidence connect to another one."""
    joins = pq.read_table(folder / JOINS)
    joins = joins.filter(pa.array(joins["confidence"].to_numpy() >= confidence))
    names, codes = np.unique(np.concatenate([joins["address"], joins["other"]]), return_inverse=True)
    wallets, roots = connected(*np.split(codes, 2))
    return dict(zip(names[wallets].tolist(), roots.tolist(), strict=True))


def report(samples: Iterable[Sample], folder: Path, plot: Path | None) -> None:
    """Print the figures of each sample at the usual confidence, and the share of right pairs by confidence.

    ``plot`` is a file for a picture of these shares, pooled by kind of data.
    """
    counts: dict[str, AnyArray] = defaultdict(lambda: np.zeros((2, len(_THRESHOLDS))))
    figures: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for sample in samples:
        find_entities([sample.transfers], sample.marked, folder, confidence=0.0)
        scores = {at: score(sample, entities_at(folder, at)) for at in _THRESHOLDS}
        usual = scores[LEAST_CONFIDENCE]
        figures[sample.data].append(usual.figures)
        print(f"{sample.name}: {len(sample.owners):,} wallets\n  {usual.text()}\n  mean recall {usual.of_sizes()}")
        if sample.crowds:
            known = {wallet: owner for wallet, owner in sample.strangers.items() if owner not in sample.crowds}
            apart = score(replace(sample, strangers=known), entities_at(folder, LEAST_CONFIDENCE))
            print(f"  precision without groups of more than {_MAX_GROUP:,} wallets {apart.figures[0]:.4f}")
        if sample.near is not None and not sample.marked.num_rows:
            report_missed(sample, entities_at(folder, LEAST_CONFIDENCE))
        together = np.array([(one.right.sum(), one.right.sum() + one.wrong.sum()) for one in scores.values()]).T
        of_bins = together - np.append(together[:, 1:], np.zeros((2, 1)), 1)
        counts[sample.data] += of_bins
        for low, high, right, pairs in zip(_THRESHOLDS, (*_THRESHOLDS[1:], 1.0), *of_bins, strict=True):
            if pairs:
                print(f"    pairs of confidence {low:.2f} to {high:.2f}: {right / pairs:.3f} of {pairs:,.0f} right")
    for data, of_data in figures.items():
        names = ("precision", "recall", "mean over owners")
        ranges = [
            f"{name} {min(values):.3f} to {max(values):.3f}"
            for name, values in zip(names, zip(*of_data, strict=True), strict=True)
        ]
        print(f"{data}, {len(of_data)} samples: {', '.join(ranges)}")
    if plot:
        from docs.reference.plots import svg_of

        plot.write_text(svg_of(partial(_draw_shares, counts), 3.2), "utf-8")


def _draw_shares(counts: Mapping[str, AnyArray], axes: Axes) -> None:
    """Draw the share of right pairs by confidence, in percent, for each kind of data; larger dots have more pairs."""
    from docs.reference.plots import HUES

    axes.plot([0, 100], [0, 100], color="#888888", linestyle="dotted", label="as stated")
    middles = 100 * (np.array(_THRESHOLDS) + np.append(_THRESHOLDS[1:], 1.0)) / 2
    for (data, (right, pairs)), hue in zip(counts.items(), HUES, strict=False):
        is_known = pairs >= 100
        sizes = 15 * np.log10(pairs[is_known])
        axes.scatter(middles[is_known], 100 * right[is_known] / pairs[is_known], sizes, hue, label=data, alpha=0.8)
    axes.set_xlabel("confidence of a pair of wallets, %")
    axes.set_ylabel("right pairs, %")
    axes.legend(frameon=False)


def calibrate(samples: Iterable[Sample], folder: Path) -> None:
    """Print the share of right pairs of each level of evidence in each kind of data, and the confidence that follows.

    ``entities.calibration`` has the rule. Samples of one kind of data are pooled.
    """
    shares: dict[str, dict[Level, AnyArray]] = defaultdict(lambda: defaultdict(lambda: np.zeros(2, np.int64)))
    for sample in samples:
        find_entities([sample.transfers], sample.marked, folder, confidence=0.0)
        for level, counts in measured_pairs(folder / LINKS, sample.owners | sample.strangers).items():
            shares[sample.data][level] += counts
    pooled = {data: {level: (int(a), int(b)) for level, (a, b) in found.items()} for data, found in shares.items()}
    supporting = [found for data, found in pooled.items() if not data.endswith(_LATE)]
    for key, confidence in calibrated(supporting).items():
        of_key = {data: found[key] for data, found in pooled.items() if key in found}
        listed = ", ".join(f"{data} {right / pairs:.3f} of {pairs:,}" for data, (right, pairs) in of_key.items())
        print(f"{key[0]} level {key[1]}: {confidence:.2f} (stated {LEVELS[key]}); {listed or 'not measured'}")


def report_histories(folder: Path, results: Path) -> None:
    """Print the largest entities of each real history."""
    for path in sorted(folder.glob("*.parquet")):
        found = find_entities([str(path)], file_marks(None), results)
        sizes = Counter(pq.read_table(results / ENTITIES)["entity"].to_pylist()).most_common(5)
        print(
            f"{path.stem}: {found.transfers:,} transfers, {found.wallets:,} addresses, {found.joined:,} wallets in "
            f"{found.entities:,} entities; largest {[count for _, count in sizes]}"
        )


def report_missed(sample: Sample, entity: Mapping[str, int]) -> None:
    """Print what pairs of one owner that are in no common entity have in common: hops, and hops without hubs.

    The shares count each owner as much as the mean of recalls does.
    """
    table = pq.read_table(sample.transfers, columns=["from_address", "to_address"])
    neighbours = _neighbours(table)
    hubs = {address for address, others in neighbours.items() if len(others) > MAX_COUNTERPARTIES}
    hubs |= set(sample.marked["address"].to_pylist())
    private = {address: others - hubs for address, others in neighbours.items() if address not in hubs}
    counts: dict[tuple[str, str], float] = defaultdict(float)
    for pairs in (sample.near or {}).values():
        missed = [(a, b) for a, b in pairs if entity.get(a, a) != entity.get(b, b)]
        sampled = missed[:2_000]
        for one, other in sampled:
            hops = _hops(neighbours, one, other), _hops(private, one, other)
            counts[hops] += len(missed) / len(sampled) / len(pairs)
    total = sum(counts.values())
    for (hops, without), count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"    missed pairs {hops} hops apart, {without} without hubs: {count / total:.3f}")


def _hops(neighbours: Mapping[str, set[str]], one: str, other: str) -> str:
    near_one, near_other = neighbours.get(one, set()), neighbours.get(other, set())
    if other in near_one:
        return "1"
    if near_one & near_other:
        return "2"
    second = {address for near in near_one for address in neighbours.get(near, ())}
    if second & near_other:
        return "3"
    return "4" if any(not second.isdisjoint(neighbours.get(near, ())) for near in near_other) else "more"


def _neighbours(edges: pa.Table) -> dict[str, set[str]]:
    """Return the counterparties of each address."""
    neighbours: dict[str, set[str]] = defaultdict(set)
    for one, other in zip(edges["from_address"].to_pylist(), edges["to_address"].to_pylist(), strict=True):
        neighbours[one].add(other)
        neighbours[other].add(one)
    return neighbours


def near_pairs(edges: Path, owners: Mapping[str, object]) -> dict[object, list[tuple[str, str]]]:
    """Return the pairs of wallets of each owner that at most four edges connect."""
    neighbours = _neighbours(pq.read_table(edges, columns=["from_address", "to_address"]))
    pairs = {}
    for owner, members in _grouped(owners).items():
        balls = {wallet: _ball(neighbours, wallet) for wallet in members}
        pairs[owner] = [
            (one, other) for one, other in combinations(members, 2) if not balls[one].isdisjoint(balls[other])
        ]
    return pairs


def _ball(neighbours: Mapping[str, set[str]], wallet: str) -> set[str]:
    """Return the addresses within two edges of a wallet."""
    near = neighbours.get(wallet, set())
    return {wallet} | near | {other for one in near for other in neighbours[one]}


def _grouped(owners: Mapping[str, object]) -> dict[object, list[str]]:
    wallets: dict[object, list[str]] = defaultdict(list)
    for wallet, owner in owners.items():
        wallets[owner].append(wallet)
    return wallets


def measure(folder: Path, wallets: int) -> None:
    """Print the seconds and the peak of memory for all links and entities of many transfers."""
    path, owners = folder / "crowd.parquet", 400
    with ProcessPoolExecutor(1) as other:  # whose memory does not count
        world = other.submit(write_crowd, path, owners, max(1, wallets // 10_000), 20 * wallets).result()
    marked = _marked(world)
    start, cpu = time.perf_counter(), time.process_time()
    results = folder / "store" / FOLDER
    found = find_entities([str(path)], marked, results)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{wallets:,} wallets, {20 * wallets:,} transfers: "
        f"{seconds:.0f} s ({cpu:.0f} s of CPU), at most {peak:.1f} GB, "
        f"{sum(found.links.values()):,} links, {found.entities:,} entities of {found.joined:,} wallets"
    )
    sample = Sample("one of its worlds", "worlds", str(path), marked, dict(world.owners), {})
    print(sample.name, score(sample, entities_at(results, LEAST_CONFIDENCE)).text())
    measure_map(folder / "store", path)


def measure_map(folder: Path, crowd: Path) -> None:
    """Print the milliseconds of a map, and of a map with the entities and links of its holders."""
    at = from_unix(BEGIN + YEAR)
    with Store(folder) as store:
        parameters = {
            "crowd": str(crowd),
            "entities": str(folder / FOLDER / ENTITIES),
            "zero": ZERO_ADDRESS,
            "begin": BEGIN - 1,
        }
        with duckdb.connect() as database:
            rows = database.sql(_HELD, params=parameters).to_arrow_reader(100_000)
            batches = (batch.cast(TRANSFERS) for batch in rows)
            store.add_transfers(pa.RecordBatchReader.from_batches(TRANSFERS, batches), "benchmark")
        of_map = MapRequest(chain="eth", token_address="native", options=MapOptions(limit=_LIMIT))
        of_links = OwnersRequest(chain="eth", token_address="native", options=OwnersOptions(limit=_LIMIT))
        spent: dict[str, list[float]] = defaultdict(list)
        for _ in range(_MAPS + 1):
            start = time.perf_counter()
            map_bytes = exact_json.encode(token_map(store, of_map, at).plain())
            middle = time.perf_counter()
            shown = extra_answers.owners(store, of_links, at).plain()
            link_bytes = exact_json.encode(shown)
            spent["map"].append(middle - start)
            spent["links"].append(time.perf_counter() - middle)
    alone, links = (median(spent[part][1:]) * 1_000 for part in ("map", "links"))
    print(
        f"map of {_LIMIT} holders: {alone:.1f} ms ({len(map_bytes):,} bytes); with the links of "
        f"{sum(len(one['holders']) for one in shown['clusters'])} holders in {len(shown['clusters'])} entities: "
        f"{alone + links:.1f} ms ({len(link_bytes):,} bytes more), ratio {1 + links / alone:.2f}"
    )


def _marked(world: World) -> pa.Table:
    return pa.table({"address": world.hot, "is_exchange": [True] * len(world.hot)})


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--owners", type=int, default=400, help="number of owners in a made world; 0: no worlds")
    parser.add_argument("--part", choices=_SEEDS, default="test")
    parser.add_argument(
        "--groups",
        type=Path,
        nargs="+",
        default=[],
        help="folders with groups.parquet, edges.parquet and labels.parquet",
    )
    parser.add_argument(
        "--labels", type=Path, help="folder with etherscan_accounts.json.gz and bscscan_accounts.json.gz"
    )
    parser.add_argument("--histories", type=Path, help="folder with Parquet files of transfers")
    parser.add_argument("--plot", type=Path, help="file for a plot of the share of right pairs by confidence, SVG")
    parser.add_argument("--wallets", type=int, help="measure time and memory instead")
    options = parser.parse_args()
    if options.wallets is not None and options.wallets < 10_000:
        parser.error("--wallets must be 10000 or more")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.wallets:
            measure(folder, options.wallets)
        elif options.histories:
            report_histories(options.histories, folder)
        else:
            samples = [
                sample for path in options.groups for sample in groups(path, options.part, options.labels, folder)
            ]
            samples += worlds(folder, options.part, options.owners) if options.owners else []
            if options.part == "calibrate":
                calibrate(samples, folder)
            else:
                report(samples, folder, options.plot)


if __name__ == "__main__":
    main()
