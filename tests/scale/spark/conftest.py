"""A Spark cluster of two workers, and a world with all parts of maps and amounts of 256 bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.times import from_unix, to_unix
from holderlake.engine.maps.batch import holder_batches, map_batches
from holderlake.engine.records import Label, TokenInfo
from holderlake.engine.store.store import Store
from holderlake.scale.spark.answers import BulkRequest, answers
from holderlake.scale.spark.tasks import Workers
from tests.engine.world import UINT256, a_token, table, transfer
from tests.helpers.sample import the_world
from tests.helpers.spark import SMALL_JVM, SparkCluster, require_spark

AT = datetime(2026, 1, 1)
WIDE = ("eth", "wide")
SMALL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": SMALL_JVM,
    "spark.executor.extraJavaOptions": SMALL_JVM,
}
"""Settings of Spark for data this small."""

Tables = dict[str, pa.Table]


@dataclass(frozen=True)
class Asking:
    """A store and a request."""

    store: Store
    tokens: list[tuple[str, str]]
    instants: list[datetime]
    maps: MapOptions
    holders: int
    infos: list[TokenInfo]
    labels: list[Label]

    def embedded(self) -> Tables:
        """Return the embedded engine's answers by table."""
        found: dict[str, list[pa.Table]] = {}
        for batch in map_batches(self.store, self.tokens, self.instants, self.maps, AT):
            for name, rows in batch.items():
                found.setdefault(name, []).append(rows)
        for rows in holder_batches(self.store, self.tokens, self.instants, self.holders, details=True):
            found.setdefault("holders", []).append(rows)
        return {name: in_order(pa.concat_tables(rows)) for name, rows in found.items()}

    def computed(self, workers: Workers, store: Store, folder: Path, together: int = 2) -> Tables:
        """Return the answers by table that the workers compute from ``store``."""
        found: dict[str, list[pa.Table]] = {}
        request = BulkRequest(self.tokens, self.instants, self.maps, self.holders, details=True)
        for partition in answers(workers, store, folder, request, together, AT):
            for name, rows in partition.tables.items():
                found.setdefault(name, []).append(rows)
        return {name: in_order(pa.concat_tables(rows)) for name, rows in found.items()}

    def empty_copy(self, folder: Path) -> Store:
        """Return a new store with the same tokens, labels and rules, and without transfers."""
        store = Store(folder, self.store.rules)
        store.add_tokens(self.infos)
        store.add_labels(self.labels)
        return store


def in_order(rows: pa.Table) -> pa.Table:
    """Return the rows by map; those of a map keep their order."""
    numbered = rows.append_column("place", pa.array(range(rows.num_rows)))
    keys = ("chain", "token_address", "as_of", "place")
    return numbered.sort_by([(key, "ascending") for key in keys]).drop_columns(["place"])


@pytest.fixture(scope="session")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """The sample world and a token of the largest amounts, at midnights and within days."""
    world = the_world()
    wide = [
        transfer("mint -> a", UINT256, 5, token=WIDE),
        transfer("mint -> b", UINT256, 6, token=WIDE),
        transfer("a -> c", UINT256 // 3, 86_400, token=WIDE),
        transfer("a -> c", 10**26, 86_401, token=WIDE),
        transfer("b -> c", 10**52 - 1, 86_402, token=WIDE),
        transfer("c -> b", 1, 2 * 86_400, token=WIDE),
        transfer("c -> d", 10**30, 3 * 86_400 + 5, token=WIDE),
        transfer("d -> a", 10**30, 3 * 86_400 + 7, token=WIDE),
    ]
    folder = tmp_path_factory.mktemp("world")
    with Store(folder, world.rules) as store:
        store.add_tokens([*world.tokens, a_token(WIDE, decimals=18)])
        store.add_labels(world.labels)
        store.add_transfers(world.transfers, "sample world")
        store.add_transfers(table(wide), "wide")
        begin, end = to_unix(world.start), to_unix(world.end)
        midnight = begin - begin % 86_400
        seconds = [2 * 86_400, 3 * 86_400 + 6, midnight + 200 * 86_400 - 1, midnight + 400 * 86_400 + 40_000, end]
        tokens = [(token.chain, token.address) for token in world.tokens if not token.unsupported]
        instants = [from_unix(second) for second in seconds]
        infos = [*world.tokens, a_token(WIDE, decimals=18)]
        yield Asking(store, [*tokens, WIDE], instants, MapOptions(), 250, infos, list(world.labels))


@pytest.fixture(scope="session")
def embedded(asking: Asking) -> Tables:
    """The embedded engine's answers."""
    return asking.embedded()


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[SparkCluster]:
    """A master and two workers."""
    require_spark()
    cluster = SparkCluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all machines of the cluster share."""
    return tmp_path_factory.mktemp("shared")
