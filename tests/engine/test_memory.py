"""An import of any size keeps to its memory budget, and stores the same as with more memory."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.times import from_unix
from holderlake.engine.files import arrays
from holderlake.engine.maps.batch import map_batches
from holderlake.engine.maps.maps import maps_of
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.records import TRANSFERS
from holderlake.engine.store.store import Store
from tests.engine.facts import address_facts
from tests.engine.oracle import Oracle
from tests.engine.random_worlds import TOKENS, random_oracle
from tests.engine.world import COIN, END, Row, held, table, transfer

Build = Callable[..., Store]
ROOT = Path(__file__).parents[2]
EVERYTHING = "SELECT * FROM read_parquet($files) ORDER BY ALL"


def history(chance: Random) -> list[Row]:
    """Random transfers on about 20 days whose blocks and seconds disagree in order, and an airdrop to 100 addresses."""
    rows = [row | {"block_time": row["block_time"] * 3_600} for row in random_oracle(chance).transfers]
    odd = [row | {"block_time": row["block_time"] + chance.randint(-90_000, 90_000)} for row in rows[::5]]
    drop = [transfer(f"mint -> drop{n}", 7, at=40, tx_hash="drop", log_index=n, block_time=10**6) for n in range(100)]
    back = [transfer(f"drop{n} -> pool", n % 3, at=50, log_index=n, block_time=10**6 + 9) for n in range(100)]
    return [*rows, *odd, *drop, *back]


def in_batches(rows: list[Row]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(TRANSFERS, table(rows).to_batches(max_chunksize=40))


def answers(store: Store, at: int) -> list[Any]:
    names = ["a", "b", "pool", "drop7", "drop8"]
    return [held(store, at), address_facts(store, names, from_unix(at))]


@pytest.mark.long
@pytest.mark.parametrize(("seed", "memory"), [(1, 40_000), (0, 8_000)])
def test_imports_and_roll_backs_give_the_same_store_in_little_memory(seed: int, memory: int, build: Build) -> None:
    chance = Random(seed)
    rows = history(chance)
    roomy, narrow = build(), build()
    narrow._memory = memory
    for part in (0.6, 0.1, 1):  # all new, few, and all, of which most are known
        some = chance.sample(rows, int(part * len(rows)))
        changed = [row | {"value": "99"} for row in some[::40]]  # other content for a known key
        reports = [store.add_transfers(in_batches(some + changed), "file") for store in (roomy, narrow)]
        assert reports[0] == reports[1]
        if part < 1:
            block = chance.choice([20, 40, 45, 10**6])
            assert narrow.roll_back("eth", block) == roomy.roll_back("eth", block)
        stored = narrow.query(EVERYTHING)
        assert stored == roomy.query(EVERYTHING)
        assert held(narrow) == Oracle(stored.to_pylist(), []).balances(COIN, END)[1]
        for at in (10**6 + 5, END):
            assert answers(narrow, at) == answers(roomy, at)
    assert not list(narrow.root.glob(".spool*"))


# ---------------------------------------------------------------------- measured

_IMPORT = """
import hashlib, json, sys, threading, time
from pathlib import Path
import numpy as np, pyarrow as pa
from holderlake.engine.records import TRANSFERS
from holderlake.engine.store.store import Store

def now():
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024

most = 0
def watch():
    global most
    while True:
        most = max(most, now())
        time.sleep(0.01)

names = np.array(["0x" + hashlib.md5(str(n).encode()).hexdigest() + "00000000" for n in range(60_000)])
def batches(count, chance=np.random.default_rng(1), size=4_000):
    for first in range(0, count, size):
        rows = np.arange(first, first + size)
        hubs = chance.random(size) < 0.3
        texts = {"from_address": names[np.where(hubs, 0, chance.integers(0, len(names), size))],
                 "to_address": names[chance.integers(0, len(names), size)],
                 "tx_hash": np.char.add("0x" + "5" * 54, np.char.zfill(rows.astype(str), 10)),
                 "value": chance.integers(1, 10**15, size).astype(str),
                 "token_address": np.where(chance.random(size) < 0.8, "0x" + "1" * 40, "0x" + "2" * 40)}
        numbers = {"block_number": rows // 20, "block_time": 1_600_000_000 + rows * 90, "log_index": rows % 20}
        same = {"chain": "eth", "token_standard": "erc20", "time_kind": "exact", "log_index_kind": "exact",
                "source": "made", "token_id": None}
        columns = {**texts, **numbers, **{name: [text] * size for name, text in same.items()}}
        made = pa.table({field.name: pa.array(columns[field.name], field.type) for field in TRANSFERS}, TRANSFERS)
        yield from made.to_batches()

def imported(folder, rows):
    with Store(Path(sys.argv[1]) / folder, memory_limit=sys.argv[3]) as store:
        return store.add_transfers(pa.RecordBatchReader.from_batches(TRANSFERS, batches(rows)), "made").added

imported("small", 8_000)  # load the modules that an import of any size needs
before = now()
threading.Thread(target=watch, daemon=True).start()
added = imported("large", int(sys.argv[2]))
print(json.dumps({"added": added, "before": before, "most": most}))
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="anonymous memory is read from Linux's /proc")
def test_an_import_several_times_larger_than_its_budget_stays_within_it(tmp_path: Path) -> None:
    rows, budget = 400_000, 64_000_000
    command = [sys.executable, "-c", _IMPORT, str(tmp_path), str(rows), "64MB"]
    found = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    assert found["added"] == rows
    assert found["most"] - found["before"] < budget


@pytest.mark.integration
def test_releasing_pages_during_a_token_does_not_change_the_answer(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = build(*history(Random(5)))
    instants = [from_unix(second) for second in (50 * 3_600, 10**6, 10**6 + 9)]
    expected, released = list(map_batches(store, TOKENS, instants, MapOptions(), from_unix(END))), threading.Event()

    def release(found: Iterable[Array]) -> None:
        arrays.release_pages(found)
        released.set()

    def maps_after_a_release(*given: Any) -> dict[str, pa.Table]:
        released.clear()
        assert released.wait(60), "no pages are released while a token's maps are made"
        return maps_of(*given)

    monkeypatch.setattr(arrays, "_MAPPED_LIMIT", 0)
    monkeypatch.setattr("holderlake.engine.maps.batch._MEMORY_CHECK_SECONDS", 0.001)
    monkeypatch.setattr("holderlake.engine.maps.batch.release_pages", release)
    monkeypatch.setattr("holderlake.engine.maps.batch.maps_of", maps_after_a_release)
    assert list(map_batches(store, TOKENS, instants, MapOptions(), from_unix(END))) == expected
    assert expected[0]["map_nodes"].num_rows


def test_pages_are_always_released_where_their_number_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "_STATM", tmp_path / "statm")
    assert arrays.exceeds_mapped_limit()
