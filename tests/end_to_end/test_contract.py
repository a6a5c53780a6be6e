"""Every row of the contract's endpoint table through the client over real HTTP, errors and credits included."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.contract.models import TokenKey
from holderlake.core.contract.requests import (
    AddressesMetadataRequest,
    AddressMetadataRequest,
    ChainsRequest,
    HoldersOptions,
    HoldersRequest,
    MapOptions,
    MapRequest,
    MetricsRequest,
    Request,
    SearchRequest,
    SubgraphRequest,
    TokenMetadataRequest,
    TokensMetadataRequest,
)
from holderlake.core.contract.times import to_unix
from holderlake.core.provider.client import ProviderClient, Response
from holderlake.core.provider.fetcher import Fetcher
from holderlake.core.provider.ledger.ledger import CreditLedger
from tests.helpers.processes import wait_until

KEY = TokenKey(chain="eth", address="0xcfe4ed94e22467bac6fd2206d478183d57f82197")
"""An indexed token of the sample world. The world takes two seconds to make, so its tokens are here as text."""
SYMBOL = "PBLD"
PAST = to_unix(datetime(2026, 1, 1))


class Session:
    """A provider with its own ledger and archive."""

    def __init__(self, base_url: str, secret: str | None, folder: Path) -> None:
        self.base_url = base_url
        self.secret = secret
        self.ledger = CreditLedger(folder / "ledger.sqlite")
        self.archive = AnswerArchive(folder / "archive")

    def ask(self, *requests: Request) -> list[Response]:
        async def all_of_them() -> list[Response]:
            async with ProviderClient(self.base_url, self.secret) as client:
                provider = Fetcher(client, self.ledger, self.archive, "tests", "run")
                return [await provider.fetch(request, "today") for request in requests]

        return asyncio.run(all_of_them())


@pytest.fixture
def session(sample_service: Any, tmp_path: Path) -> Iterator[Session]:
    opened = Session(sample_service.base_url, sample_service.secret, tmp_path)
    yield opened
    opened.ledger.close()


def _billed(service: Any, secret: str) -> int:
    key = service.keys.find(secret)
    wait_until(lambda: not service.keys.balance(key.id).reserved)  # an answer is booked just after it has gone out
    return int(service.keys.balance(key.id).spent)


HISTORY = MapOptions(timestamp=PAST)
ROWS: list[tuple[Request, int]] = [
    (ChainsRequest(), 1),
    (MapRequest(chain=KEY.chain, token_address=KEY.address), 25_00),
    (MapRequest(chain=KEY.chain, token_address=KEY.address, options=MapOptions(limit=250)), 75_00),
    (MapRequest(chain=KEY.chain, token_address=KEY.address, options=MapOptions(limit=500)), 125_00),
    (MapRequest(chain=KEY.chain, token_address=KEY.address, options=MapOptions(return_nodes=True)), 50_00),
    (MapRequest(chain=KEY.chain, token_address=KEY.address, options=MapOptions(refresh=True)), 50_00),
    (MapRequest(chain=KEY.chain, token_address=KEY.address, options=HISTORY), 75_00),
    (MapRequest(chain=KEY.chain, token_address=KEY.address, options=MapOptions(return_relationships=True)), 25_00),
    (HoldersRequest(chain=KEY.chain, token_address=KEY.address), 1_00),
    (HoldersRequest(chain=KEY.chain, token_address=KEY.address, options=HoldersOptions(limit=250)), 11_00),
    (HoldersRequest(chain=KEY.chain, token_address=KEY.address, options=HoldersOptions(limit=500)), 26_00),
    (HoldersRequest(chain=KEY.chain, token_address=KEY.address, options=HoldersOptions(return_metadata=True)), 26_00),
    (HoldersRequest(chain=KEY.chain, token_address=KEY.address, options=HoldersOptions(refresh=True)), 26_00),
    (HoldersRequest(chain=KEY.chain, token_address=KEY.address, options=HoldersOptions(timestamp=PAST)), 51_00),
    (MetricsRequest(chain=KEY.chain, token_address=KEY.address), 25_00),
    (TokenMetadataRequest(chain=KEY.chain, token_address=KEY.address), 10),
    (TokenMetadataRequest(chain=KEY.chain, token_address=KEY.address, return_token_stats=True), 50),
    (TokensMetadataRequest(tokens=(KEY, TokenKey(chain="eth", address="0x1"))), 20),
    (TokensMetadataRequest(tokens=(KEY,), return_token_stats=True), 50),
    (SearchRequest(text=SYMBOL), 50),
    (SubgraphRequest(addresses=("0xa1", "0xa2", "0xa3")), 13_00),
    (SubgraphRequest(addresses=("0xa1", "0xa2"), context_token_key=KEY), 12_00),
    (AddressMetadataRequest(address="0xa1"), 1_00),
    (AddressesMetadataRequest(addresses=("0xa1", "0xa2")), 2_00),
]


@pytest.mark.later(integration=8)
@pytest.mark.parametrize(("request_", "cost"), ROWS, ids=lambda value: getattr(value, "endpoint", None))
def test_each_endpoint_answers_and_the_ledger_equals_what_was_billed(
    sample_service: Any, session: Session, request_: Request, cost: int
) -> None:
    before = _billed(sample_service, sample_service.secret)
    (fetched,) = session.ask(request_)
    assert fetched.cost == cost
    assert _billed(sample_service, sample_service.secret) - before == cost
    assert session.ledger.totals().spent == cost
    assert fetched.answer is not None


def test_an_answered_request_is_not_sent_again(sample_service: Any, session: Session) -> None:
    session.ask(ROWS[1][0])
    before = _billed(sample_service, sample_service.secret)
    (again,) = session.ask(ROWS[1][0])
    assert (again.cost, again.from_archive) == (0, True)
    assert _billed(sample_service, sample_service.secret) == before
