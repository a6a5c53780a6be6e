"""Answers of nodes that never end or that decompress to gigabytes."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest
from pydantic import SecretStr

from holderlake.sources.rpc.endpoint import Endpoint
from holderlake.sources.rpc.errors import RpcError, TooLarge, Unavailable
from holderlake.sources.rpc.messages import Call
from tests.helpers.misbehaving import Misbehaving, Step, answer, endless
from tests.helpers.processes import PATIENCE

BOMB = answer(gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"})


def ask(step: Step, *, is_divisible: bool = False) -> object:
    """The result of one call to an endpoint that gives this answer, or the error."""

    async def run() -> object:
        async with Misbehaving([step]) as server:
            url = SecretStr(server.address)
            endpoint = Endpoint(url, timeout=PATIENCE, batch=1, connections=1, answer_bytes=100_000)
            try:
                return await endpoint._exchange([Call("eth_getLogs", [], answer=list, is_divisible=is_divisible)])
            except RpcError as error:
                return error
            finally:
                await endpoint.close()

    return asyncio.run(run())


@pytest.mark.parametrize("step", [endless(), BOMB], ids=["endless", "bomb"])
def test_an_answer_beyond_the_limit_is_unavailable(step: Step) -> None:
    failure = ask(step)
    assert isinstance(failure, Unavailable)
    assert "more than 0.1 MB" in str(failure)


@pytest.mark.parametrize("step", [endless(), BOMB], ids=["endless", "bomb"])
def test_a_range_whose_answer_is_beyond_the_limit_is_divided(step: Step) -> None:
    assert isinstance(ask(step, is_divisible=True), TooLarge)


def test_a_compressed_answer_is_read() -> None:
    reply = gzip.compress(json.dumps({"jsonrpc": "2.0", "id": 1, "result": [7]}).encode())
    assert ask(answer(reply, headers={"Content-Encoding": "gzip"})) == [[7]]
