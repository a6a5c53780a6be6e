"""A store that many tasks build gives the answers of one that the embedded engine imported, here in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from pyarrow.fs import FileSystem

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.rules import Rules
from holderlake.core.contract.times import from_unix
from holderlake.engine.errors import BadSource
from holderlake.engine.records import TRANSFERS, ImportReport
from holderlake.engine.store.store import Store
from holderlake.engine.store.verify import verify
from holderlake.scale.spark.build import build, parquet_files
from holderlake.scale.spark.tasks import Workers
from tests.engine.world import COIN, Row, a_token, cex, contract, held, histories, settled, table, transfer, world
from tests.helpers.s3 import require_s3, s3_bucket, s3_server
from tests.scale.spark.conftest import Asking, Tables

pytestmark = pytest.mark.integration

SMALL = 64_000_000
"""A task's memory in bytes, so small that most steps have several tasks."""


def built(store: Store, *files: Path, on_task: Callable[[str, int], None] = lambda step, tasks: None) -> ImportReport:
    """Build the store from the files in this process."""
    return build(Workers(), store, [str(path) for path in files], SMALL, on_task)


def test_answers_equal_those_of_the_embedded_engine(asking: Asking, embedded: Tables, tmp_path: Path) -> None:
    steps: dict[str, int] = {}
    with asking.empty_copy(tmp_path / "store") as store:
        files = [Path(path) for path in asking.store.files()]
        report = built(store, *files, on_task=lambda step, tasks: steps.update({step: tasks}))
        computed = asking.computed(Workers(), store, tmp_path / "results")
        assert report.added == sum(history.transfers for history in asking.store.histories())
    assert computed.keys() == embedded.keys()
    for name, rows in embedded.items():
        assert computed[name].equals(rows), name
    assert steps["importing tokens"] > 10


@pytest.mark.long
@settled(12)
@given(histories())
def test_random_histories_give_the_answers_of_the_embedded_engine(history: list[Row]) -> None:
    rules = Rules(
        supernode_degree=4, hypernode_transfers=9, magic_links=1, time_window=10, time_links=1, time_wallets=2
    )
    token, labels = a_token(COIN, decimals=18), [cex("e"), contract("f")]
    with (
        world(*history, tokens=[token], labels=labels, rules=rules) as store,
        TemporaryDirectory() as name,
    ):
        folder, instants = Path(name), [from_unix(at) for at in (1, 50, 100)]
        asking = Asking(store, [COIN], instants, MapOptions.model_construct(limit=3), 2, [token], labels)
        for number, rows in enumerate((history[::2], history[1::2])):
            pq.write_table(table(rows), folder / f"{number}.parquet")
        with asking.empty_copy(folder / "store") as copy:
            if history:
                built(copy, folder / "0.parquet", folder / "1.parquet")
            assert asking.computed(Workers(), copy, folder / "results") == asking.embedded()


def test_a_built_store_is_sound_and_takes_further_transfers(tmp_path: Path) -> None:
    pq.write_table(table([transfer("mint -> a", 9, 1), transfer("a -> b", 4, 2)]), tmp_path / "rows.parquet")
    with Store(tmp_path / "store") as store:
        built(store, tmp_path / "rows.parquet")
        store.add_transfers(table([transfer("b -> c", 1, 3)]), "later")
        assert held(store) == {"a": 5, "b": 3, "c": 1}
    result = verify(tmp_path / "store")
    assert (result.damaged, result.unlisted) == ([], [])
    assert not list((tmp_path / "store").glob(".build-*"))


def test_rows_in_two_files_count_once_and_conflicts_are_counted(tmp_path: Path) -> None:
    first = [transfer("mint -> a", 9, 1, tx_hash="1"), transfer("a -> b", 4, 2, tx_hash="2")]
    pq.write_table(table(first), tmp_path / "1.parquet")
    pq.write_table(table([first[0], first[1] | {"value": "5"}]), tmp_path / "2.parquet")
    with Store(tmp_path / "store") as store:
        report = built(store, tmp_path)
    assert (report.rows, report.added, report.duplicates, report.conflicts) == (4, 2, 1, 1)


def test_files_in_a_bucket_are_read_by_their_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_s3()
    pq.write_table(table([transfer("mint -> a", 9, 1)]), tmp_path / "rows.parquet")
    with s3_server() as server, Store(tmp_path / "store") as store:
        s3_bucket(server, "raw")
        for name, value in {"ACCESS_KEY_ID": "testing", "SECRET_ACCESS_KEY": "testing", "ENDPOINT_URL": server}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        bucket, _ = FileSystem.from_uri("s3://raw")
        with bucket.open_output_stream("raw/2026/rows.parquet") as file:
            file.write((tmp_path / "rows.parquet").read_bytes())
        assert build(Workers(), store, ["s3a://raw/2026"], SMALL, lambda step, tasks: None).added == 1
        assert held(store) == {"a": 9}


def test_a_relative_path_means_the_folder_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of a cluster run in other folders."""
    (tmp_path / "raw").mkdir()
    pq.write_table(table([transfer("a -> b", 1, 1)]), tmp_path / "raw" / "transfers.parquet")
    monkeypatch.chdir(tmp_path)
    assert parquet_files("raw") == parquet_files("raw/transfers.parquet") == [str(tmp_path / "raw/transfers.parquet")]


def test_transfers_of_value_zero_alone_make_a_store_without_relationships(tmp_path: Path) -> None:
    pq.write_table(table([transfer("a -> b", 0, 1)]), tmp_path / "rows.parquet")
    with Store(tmp_path / "store") as store:
        assert built(store, tmp_path / "rows.parquet").added == 1
        assert held(store) == {}


def test_a_store_with_transfers_is_refused(tmp_path: Path) -> None:
    pq.write_table(table([transfer("mint -> a", 9, 1)]), tmp_path / "rows.parquet")
    with world(transfer("mint -> b", 1, 1)) as store, pytest.raises(BadSource, match="has transfers already"):
        built(store, tmp_path / "rows.parquet")


def test_a_file_of_other_columns_is_refused_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"sender": ["a"]}), tmp_path / "other.parquet")
    with Store(tmp_path / "store") as store, pytest.raises(BadSource, match=r"other\.parquet has not the columns"):
        built(store, tmp_path / "other.parquet")


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store, pytest.raises(BadSource, match=r"no\.parquet can't be read"):
        built(store, tmp_path / "no.parquet")


def test_files_without_rows_are_refused(tmp_path: Path) -> None:
    pq.write_table(TRANSFERS.empty_table(), tmp_path / "none.parquet")
    with Store(tmp_path / "store") as store, pytest.raises(BadSource, match="no transfers"):
        built(store, tmp_path / "none.parquet")
