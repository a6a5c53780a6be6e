"""Many invented transfers: a cluster with a killed worker gives the answers of the embedded engine.

``HOLDERLAKE_CLUSTER_ROWS`` sets the number; without it the test is skipped, because it takes minutes.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from tests.helpers.spark import require_spark

ROWS = int(os.environ.get("HOLDERLAKE_CLUSTER_ROWS", "0"))


@pytest.mark.long
@pytest.mark.skipif(not ROWS, reason="HOLDERLAKE_CLUSTER_ROWS=20000000 runs it")
def test_many_transfers_give_equal_answers_with_a_killed_worker(tmp_path: Path) -> None:
    require_spark()
    from benchmarks.cluster import run

    folder = Path(os.environ.get("HOLDERLAKE_CLUSTER_FOLDER") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    assert run(folder, argparse.Namespace(rows=ROWS, instants=4, kill=True, memory="2g", budget="1GB")) == []
