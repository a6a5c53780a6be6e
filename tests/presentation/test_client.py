"""``holderlake.Client``: blocking calls of the API, against the real service over the sample world."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holderlake
from holderlake.core.contract.models import Chain
from holderlake.core.contract.requests import ChainsRequest, MapRequest, SearchRequest


def test_answers_are_the_contract_s_models(sample_service: Any) -> None:
    with holderlake.Client(sample_service.base_url, sample_service.secret) as client:
        chains = client.get(ChainsRequest())
        (token, *_) = client.get(SearchRequest(text="fernlight"))
        key = token.token_key
        found = client.get(MapRequest(chain=key.chain, token_address=key.address))
    assert all(isinstance(chain, Chain) for chain in chains)
    assert token.metadata.symbol == "FERN"
    assert found.metrics.scores is not None


def test_it_works_where_an_event_loop_runs_as_in_a_notebook(sample_service: Any) -> None:
    async def cell() -> int:
        with holderlake.Client(sample_service.base_url, sample_service.secret) as client:
            return len(client.get(ChainsRequest()))

    assert asyncio.run(cell()) == 14


def test_a_wrong_key_is_an_error_of_the_public_module(sample_service: Any) -> None:
    with holderlake.Client(sample_service.base_url, "wrong") as client, pytest.raises(holderlake.errors.InvalidKey):
        client.get(ChainsRequest())


def test_a_closed_client_says_how_to_use_it(sample_service: Any) -> None:
    client = holderlake.Client(sample_service.base_url, sample_service.secret)
    with pytest.raises(ValueError, match="with Client"):
        client.get(ChainsRequest())


def test_the_key_is_in_no_representation() -> None:
    assert "hl_secret" not in repr(holderlake.Client("http://127.0.0.1:1", "hl_secret"))
