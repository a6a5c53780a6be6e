"""A receiver of webhooks for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running
