"""The request of an archived answer is the request that was sent, with the same cost."""

from __future__ import annotations

import json

import pytest

from holderlake.core.contract.requests import Request, SearchRequest
from holderlake.operations.maintenance.restore_ledger import request_of
from tests.core.contract.test_prices import ROWS


@pytest.mark.parametrize(
    "request_", [*(one for one, _ in ROWS), SearchRequest(text="fern & co")], ids=lambda one: one.endpoint
)
def test_a_request_is_read_from_what_the_archive_stores(request_: Request) -> None:
    about = {"method": request_.method, "path": request_.path, "query": request_.query, "body": request_.body}
    found = request_of(json.loads(json.dumps(about)))
    assert found == request_
    assert found.cost == request_.cost
