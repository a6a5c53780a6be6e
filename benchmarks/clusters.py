"""How often entities are right: pairwise precision and recall on published groups of wallets and on made worlds.

    python -m benchmarks.clusters                          # worlds of 400 owners with decoys, all presets
    python -m benchmarks.clusters --groups FOLDER          # groups.parquet, edges.parquet and labels.parquet
    python -m benchmarks.clusters --wallets 1000000        # seconds and memory of 20 transfers a wallet, and one map

Precision is the part of the pairs of wallets in one entity that have one owner; recall is the part of the pairs with
one owner that are in one entity. Wallets whose owner is not known do not count. Of published groups, only pairs count
that the edges connect within four hops, and the largest group is left out. ``--without-labels`` hides the labels, so
that only degree and behaviour tell hubs.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.worlds import BEGIN, WAYS, YEAR, World, make_world, write_crowd
from holderlake.contract import exact_json
from holderlake.contract.chains import ZERO_ADDRESS
from holderlake.contract.extra_requests import OwnersOptions, OwnersRequest
from holderlake.contract.requests import MapOptions, MapRequest
from holderlake.contract.times import from_unix
from holderlake.engine.records import TRANSFERS
from holderlake.engine.store.store import Store
from holderlake.entities.clusters import FOLDER
from holderlake.entities.kinds import KINDS, PRESETS, Preset
from holderlake.entities.links import ENTITIES, LINKS, MARKED, find_entities
from holderlake.service.api import extra_answers
from holderlake.service.api.answers import token_map

_HOPS: Final = 4
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


def score_world(folder: Path, owners: int, seed: int) -> None:
    """Print precision and recall of each preset, and the precision of each kind of evidence, in a made world."""
    world = make_world(owners, seed)
    path, edges = folder / "world.parquet", folder / "edges.parquet"
    pq.write_table(world.table(), path)
    pq.write_table(world.table().select(["from_address", "to_address"]), edges)
    print(f"world of {owners} owners, seed {seed}: {len(world.owners):,} wallets, {len(world.rows):,} transfers")
    marked = _marked(world)
    for preset in reversed(PRESETS.values()):
        find_entities([str(path if len(preset.kinds) > 1 else edges)], marked, preset, folder)
        entity = _entity(folder)
        print(f"  {preset.name:12}", _text(*_pairwise(world.owners, entity)), _mistakes(world.owners, entity))
        if len(preset.kinds) == 1:
            continue
        for way in WAYS:
            own = {wallet: owner for wallet, owner in world.owners.items() if world.ways[owner] == way}
            print(f"    funded by {way:12}", _text(*_pairwise(own, entity, world.owners)))
    untimed = folder / "untimed.parquet"
    pq.write_table(world.table().drop_columns(["block_time"]), untimed)
    find_entities([str(untimed)], marked, PRESETS["one-kind"], folder)
    own = {wallet: owner for wallet, owner in world.owners.items() if world.ways[owner] == "disperse"}
    print("  one-kind without times, funded by disperse", _text(*_pairwise(own, _entity(folder), world.owners)))
    print("  by least confidence, one kind or several")
    for confidence in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
        find_entities([str(path)], marked, replace(PRESETS["one-kind"], confidence=confidence), folder)
        print(f"    {confidence:<14}", _text(*_pairwise(world.owners, _entity(folder))))
    print("  by kind of evidence, whatever its confidence")
    links = pq.read_table(folder / LINKS)
    for kind in KINDS:
        rows = links.filter(pc.equal(links["kind"], kind))
        print(f"    {kind:14}", _text(*_links(rows, world.owners)))
        for confidence in sorted(set(rows["confidence"].to_pylist())):
            of_confidence = rows.filter(pc.equal(rows["confidence"], confidence))
            right, pairs, _ = _links(of_confidence, world.owners)
            if pairs:
                print(f"      {confidence:<12} precision {right / pairs:.4f} of {pairs:,} pairs")


def _links(links: pa.Table, owners: Mapping[str, int]) -> tuple[int, int, int]:
    """Return the pairs that links of one kind show, those of them with one owner, and all pairs with one owner."""
    groups: dict[int, list[str]] = defaultdict(list)
    for through, address in zip(links["link"].to_pylist(), links["address"].to_pylist(), strict=True):
        if address in owners:
            groups[through].append(address)
    pairs = {tuple(sorted(pair)) for group in groups.values() for pair in combinations(group, 2)}
    right = sum(owners[one] == owners[other] for one, other in pairs)
    return right, len(pairs), _count(owners.values())


def _entity(folder: Path) -> dict[str, str]:
    """Return the entity of each wallet that has one."""
    entities = pq.read_table(folder / ENTITIES, columns=["address", "entity"])
    return dict(zip(*(column.to_pylist() for column in entities.columns), strict=True))


def _mistakes(owners: Mapping[str, int], entity: Mapping[str, str]) -> str:
    """Say how many entities have several owners, and how many owners several entities, single wallets included."""
    mixed = Counter(len({owners[one] for one in group}) > 1 for group in _grouped(entity, owners).values())
    parts = Counter(len({entity.get(one, one) for one in group}) > 1 for group in _grouped(owners).values())
    return f"; merged: {mixed[True]} of {mixed.total()} entities, split: {parts[True]} of {parts.total()} owners"


def _pairwise(
    owners: Mapping[str, int], entity: Mapping[str, str], everyone: Mapping[str, int] | None = None
) -> tuple[int, int, int]:
    """Return the pairs with one owner and entity, the pairs in one entity, and the pairs with one owner.

    ``everyone`` has the owners of more wallets: pairs of a wallet of ``owners`` with one of these count too.
    """
    placed = [wallet for wallet in owners if wallet in entity]
    right = _count((owners[wallet], entity[wallet]) for wallet in placed)
    within = Counter(entity[wallet] for wallet in placed)
    together = sum(count * (count - 1) // 2 for count in within.values())
    if everyone is not None:
        strangers = Counter(entity[wallet] for wallet in everyone if wallet in entity and wallet not in owners)
        together += sum(count * strangers[one] for one, count in within.items())
    return right, together, _count(owners.values())


def _count(keys: Iterable[object]) -> int:
    """Return the number of pairs with equal keys."""
    return sum(count * (count - 1) // 2 for count in Counter(keys).values())


def _text(right: int, together: int, all_pairs: int) -> str:
    precision, recall = (right / pairs if pairs else float("nan") for pairs in (together, all_pairs))
    return f"precision {precision:.4f}, recall {recall:.4f} ({right:,} of {together:,} pairs are right)"


def score_groups(folder: Path, preset: Preset, with_labels: bool, results: Path) -> None:
    """Print precision and recall on published groups."""
    groups = pq.read_table(folder / "groups.parquet")
    labels = pq.read_table(folder / "labels.parquet")
    if not with_labels:
        labels = labels.slice(0, 0)
    marked = pa.table(
        [labels["address"], pa.array([kind == "exchange" for kind in labels["kind"].to_pylist()], pa.bool_())],
        MARKED,
    )
    find_entities([str(folder / "edges.parquet")], marked, preset, results)
    entity = _entity(results)
    owners = dict(zip(groups["address"].to_pylist(), groups["group"].to_pylist(), strict=True))
    (largest, wallets), *_ = Counter(owners.values()).most_common(1)
    rest = {wallet: owner for wallet, owner in owners.items() if owner != largest}
    near = near_pairs(folder / "edges.parquet", rest)
    joined = sum(one in entity and entity.get(one) == entity.get(other) for one, other in near)
    right, together, everything = _pairwise(rest, entity)
    print(f"{preset.name}, {'with' if with_labels else 'without'} labels, {len(rest):,} wallets in groups")
    print(
        f"  precision {right / together:.4f}, recall {joined / len(near):.4f} of {len(near):,} pairs within four hops"
    )
    print(f"  of all {everything:,} pairs: {_text(right, together, everything)}")
    print(f"  with the largest group ({wallets:,} wallets): {_text(*_pairwise(owners, entity))}")
    print("  groups", _mistakes(rest, entity))


def near_pairs(edges: Path, owners: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the pairs of wallets with one owner that at most four edges connect."""
    table = pq.read_table(edges, columns=["from_address", "to_address"])
    beside: dict[str, set[str]] = defaultdict(set)
    for one, other in zip(table["from_address"].to_pylist(), table["to_address"].to_pylist(), strict=True):
        beside[one].add(other)
        beside[other].add(one)
    found = []
    for members in _grouped(owners).values():
        balls = {wallet: _ball(beside, wallet) for wallet in members}
        found += [(one, other) for one, other in combinations(members, 2) if not balls[one].isdisjoint(balls[other])]
    return found


def _ball(beside: Mapping[str, set[str]], wallet: str) -> set[str]:
    """Return the addresses within two edges of a wallet."""
    near = beside.get(wallet, set())
    return {wallet} | near | {other for one in near for other in beside[one]}


def _grouped(groups: Mapping[str, object], known: Container[str] | None = None) -> dict[object, list[str]]:
    """Return the wallets of each group, only ``known`` ones if given."""
    wallets: dict[object, list[str]] = defaultdict(list)
    for wallet, group in groups.items():
        if known is None or wallet in known:
            wallets[group].append(wallet)
    return wallets


def measure(folder: Path, wallets: int) -> None:
    """Print the seconds and the peak of memory for all links and entities of many transfers."""
    path, owners = folder / "crowd.parquet", 400
    with ProcessPoolExecutor(1) as other:  # whose memory does not count
        world = other.submit(write_crowd, path, owners, max(1, wallets // 10_000), 20 * wallets).result()
    marked = _marked(world)
    start, cpu = time.perf_counter(), time.process_time()
    results = folder / "store" / FOLDER
    found = find_entities([str(path)], marked, next(iter(PRESETS.values())), results)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{wallets:,} wallets, {20 * wallets:,} transfers: "
        f"{seconds:.0f} s ({cpu:.0f} s of CPU), at most {peak:.1f} GB, "
        f"{sum(found.links.values()):,} links, {found.entities:,} entities of {found.joined:,} wallets"
    )
    entity = _entity(results)
    print("one of its worlds:", _text(*_pairwise(world.owners, entity)))
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
    parser.add_argument("--owners", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--groups", type=Path, help="folder with groups.parquet, edges.parquet and labels.parquet")
    parser.add_argument("--without-labels", action="store_true")
    parser.add_argument("--wallets", type=int, help="measure time and memory instead")
    chosen = parser.parse_args()
    if chosen.wallets is not None and chosen.wallets < 10_000:
        parser.error("--wallets must be 10000 or more")
    with tempfile.TemporaryDirectory() as temporary:
        if chosen.wallets:
            measure(Path(temporary), chosen.wallets)
        elif chosen.groups:
            score_groups(chosen.groups, PRESETS["bare-edges"], not chosen.without_labels, Path(temporary))
        else:
            score_world(Path(temporary), chosen.owners, chosen.seed)


if __name__ == "__main__":
    main()
