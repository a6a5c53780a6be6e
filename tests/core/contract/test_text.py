"""Addresses, instants and error bodies as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holderlake.core.contract.chains import BURN_ADDRESSES, CHAIN_BY_EVM_ID, KNOWN_CHAINS, normalise_address
from holderlake.core.contract.errors import ERROR_KINDS, error_code, error_detail
from holderlake.core.contract.times import (
    dt_update_text,
    from_unix,
    parse_partition,
    parse_when,
    partition_text,
    to_unix,
    utc_now,
)

CHECKSUMMED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        (CHECKSUMMED, CHECKSUMMED.lower()),
        (CHECKSUMMED.upper(), CHECKSUMMED.lower()),
        (f"  {CHECKSUMMED}\n", CHECKSUMMED.lower()),
        ("NATIVE", "native"),
        ("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"),
        ("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"),
        ("EQCxE6mUtQJKFnGfaROTKOt1lZbDiiX1kCixRv7Nw2Id_sDs", "EQCxE6mUtQJKFnGfaROTKOt1lZbDiiX1kCixRv7Nw2Id_sDs"),
        ("0xNotHex", "0xNotHex"),
    ],
)
def test_only_hexadecimal_addresses_lose_their_case(written: str, normal: str) -> None:
    assert normalise_address(written) == normal
    assert normalise_address(normal) == normal


def test_burn_addresses_have_the_normal_form() -> None:
    assert {normalise_address(address) for address in BURN_ADDRESSES} == set(BURN_ADDRESSES)


def test_the_chains_of_the_document_are_known() -> None:
    document = "eth base solana tron bsc sonic ton avalanche polygon monad hyperevm arbitrum robinhood"
    assert {*document.split(), "arc"} <= set(KNOWN_CHAINS)
    assert CHAIN_BY_EVM_ID[1] == "eth"


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-20", datetime(2026, 11, 20)),
        ("2026-11-20T12:34:56", datetime(2026, 11, 20, 12, 34, 56)),
        ("2026-11-20 12:34", datetime(2026, 11, 20, 12, 34)),
        ("2026-11-20T12:34:56Z", datetime(2026, 11, 20, 12, 34, 56)),
        ("2026-11-20T12:34:56+02:00", datetime(2026, 11, 20, 10, 34, 56)),
        ("2026-11-20T12:34:56.000", datetime(2026, 11, 20, 12, 34, 56)),
        ("20261120T123456Z", datetime(2026, 11, 20, 12, 34, 56)),
        ("20261120", datetime(2026, 11, 20)),
        ("1795132800", datetime(2026, 11, 20)),
        ("0", datetime(1970, 1, 1)),
        (" 2026-11-20 ", datetime(2026, 11, 20)),
    ],
)
def test_a_time_is_parsed_in_its_usual_forms(text: str, instant: datetime) -> None:
    assert parse_when(text) == instant


def test_now_is_the_present_second() -> None:
    before = utc_now().replace(microsecond=0)
    now = parse_when("NOW")
    assert before <= now <= utc_now()
    assert now.microsecond == 0


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "20261399", "12:00", "-5", "999999999999", "1e9"])
def test_other_text_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; give an ISO date"):
        parse_when(text)


def test_a_fraction_of_a_second_is_refused() -> None:
    with pytest.raises(ValueError, match="has a fraction of a second"):
        parse_when("2026-11-20T12:34:56.789")


seconds = st.integers(to_unix(datetime(1970, 1, 1)), to_unix(datetime(2200, 1, 1)))


@settings(deadline=None)
@given(seconds)
def test_instants_are_formatted_and_parsed_back(moment: int) -> None:
    instant = from_unix(moment)
    assert to_unix(instant) == moment
    assert partition_text(datetime(2026, 11, 20)) == "20261120T000000Z"
    assert dt_update_text(datetime(2026, 11, 20)) == "2026-11-20T00:00:00.000000"
    assert parse_partition(partition_text(instant)) == instant
    assert parse_when(partition_text(instant)) == instant


@settings(deadline=None)
@given(seconds, seconds)
def test_partition_texts_sort_like_their_instants(one: int, other: int) -> None:
    assert (partition_text(from_unix(one)) < partition_text(from_unix(other))) == (one < other)


def test_instants_with_a_zone_and_fractions_become_whole_utc_seconds() -> None:
    assert to_unix(datetime(2026, 11, 20, 2, tzinfo=timezone(timedelta(hours=2)))) == 1_795_132_800
    assert to_unix(datetime(2026, 11, 20, 0, 0, 0, 999_999, tzinfo=UTC)) == 1_795_132_800


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, {"detail": "x", "code": "unknown_token"}, "unknown_token"),
        (404, {"detail": "x"}, "no_holders"),
        (429, None, "limit_reached"),
        (403, None, "forbidden"),
        (429, {"code": "rate_limited"}, "rate_limited"),
        (422, {"detail": []}, "invalid_request"),
        (503, "<html>", "unavailable"),
        (418, None, "unexpected_status"),
    ],
)
def test_the_code_of_an_error_comes_from_its_body_or_status(status: int, body: Any, code: str) -> None:
    assert error_code(status, body) == code


def test_only_temporary_errors_are_retryable() -> None:
    worth = {code for code, kind in ERROR_KINDS.items() if kind.retryable}
    assert worth == {"too_slow", "rate_limited", "internal_error", "unavailable"}


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"detail": "no holders"}, "no holders"),
        ({"detail": [{"loc": ["query", "limit"], "msg": "bad"}]}, "query.limit: bad"),
        ({"detail": {"message": "no such token", "code": 7}}, "no such token"),
        ({"message": "Forbidden"}, "Forbidden"),
        ({"error": {"message": "slow down"}}, "slow down"),
        ({"detail": 17}, "17"),
        ({"detail": None, "title": "Not allowed"}, "Not allowed"),
        ({"detail": [{"loc": 3, "msg": ["a", 1]}, 5, None]}, "a; 1; 5; None"),
        ({"detail": {}}, "the raw text"),
        ([], "the raw text"),
    ],
)
def test_a_detail_of_any_json_type_becomes_text(body: Any, detail: str) -> None:
    assert error_detail(body, "the raw text") == detail
    assert error_detail(None, "<html>" * 100) == ("<html>" * 100)[:300]
