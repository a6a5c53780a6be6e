"""Objects are excluded from garbage collection while blocks are read, and no others."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from holderlake.sources.rpc.reading import frozen_objects


@pytest.fixture(autouse=True)
def _nothing_is_frozen() -> Iterator[None]:
    """Release what the test run freezes at its start."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_objects_are_frozen_only_within_the_block() -> None:
    before = gc.get_freeze_count()
    with frozen_objects():
        assert gc.get_freeze_count() > before
    assert gc.get_freeze_count() <= before


def test_later_objects_stay_collectable_through_inner_blocks() -> None:
    with frozen_objects():
        frozen = gc.get_freeze_count()
        later = [[number] for number in range(10_000)]
        with frozen_objects():
            assert gc.get_freeze_count() <= frozen
        assert 0 < gc.get_freeze_count() <= frozen
        assert len(later) == 10_000
