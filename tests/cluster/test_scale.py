"""Many made-up transfers: a cluster of which a worker is killed gives the embedded engine's answers.

As many as ``HOLDERLAKE_CLUSTER_ROWS`` says; without it nothing runs, for it takes minutes.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from tests.spark import require_spark

ROWS = int(os.environ.get("HOLDERLAKE_CLUSTER_ROWS", "0"))


@pytest.mark.skipif(not ROWS, reason="HOLDERLAKE_CLUSTER_ROWS=20000000 runs it")
def test_answers_of_many_transfers_are_the_embedded_engine_s_with_a_worker_killed(tmp_path: Path) -> None:
    require_spark()
    from benchmarks.cluster import run

    folder = Path(os.environ.get("HOLDERLAKE_CLUSTER_FOLDER") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    assert run(folder, argparse.Namespace(rows=ROWS, instants=4, kill=True, duckdb=False, memory="3g")) == []
