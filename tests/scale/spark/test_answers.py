"""Tasks give the answers of the embedded engine, here all in this process."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from holderlake.core.contract.times import from_unix
from holderlake.engine.errors import UnknownToken
from holderlake.scale.spark.answers import BulkRequest, answers
from holderlake.scale.spark.tasks import Workers
from tests.scale.spark.conftest import Asking, Tables

pytestmark = pytest.mark.integration


def test_maps_and_holders_equal_those_of_the_embedded_engine(asking: Asking, embedded: Tables, tmp_path: Path) -> None:
    computed = asking.computed(Workers(), asking.store, tmp_path)
    assert computed.keys() == embedded.keys()
    for name, rows in embedded.items():
        assert computed[name].equals(rows), name
    assert embedded["maps"].num_rows > 50


def test_partitions_of_the_latest_instants_come_first(asking: Asking, tmp_path: Path) -> None:
    request = BulkRequest(asking.tokens, asking.instants, None, 5)
    instants = [partition.as_of for partition in answers(Workers(), asking.store, tmp_path, request, together=1)]
    assert instants == sorted(instants, reverse=True)


def test_every_chain_has_a_partition_at_every_instant(asking: Asking, tmp_path: Path) -> None:
    request = BulkRequest(asking.tokens, asking.instants, None, 5)
    partitions = list(answers(Workers(), asking.store, tmp_path, request, together=2))
    chains = {chain for chain, _ in asking.tokens}
    assert {(partition.chain, partition.as_of) for partition in partitions} == {*product(chains, asking.instants)}
    assert any(not partition.tables or partition.tables["holders"].num_rows == 0 for partition in partitions)


def test_results_are_removed_when_all_partitions_are_read(asking: Asking, tmp_path: Path) -> None:
    asking.computed(Workers(), asking.store, tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_unknown_token_is_refused_before_any_task_runs(asking: Asking, tmp_path: Path) -> None:
    request = BulkRequest([("eth", "unknown")], [from_unix(1)], asking.maps)
    with pytest.raises(UnknownToken, match="unknown"):
        next(answers(Workers(), asking.store, tmp_path, request))
    assert not list(tmp_path.iterdir())
