"""Amounts pass through JSON without a float, and malformed bytes are reported."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holderlake.core.contract.exact_json import MalformedAnswer, decode, encode, json_number
from holderlake.core.contract.models import Holder, Map
from tests.core.contract.answers import ALICE, holder, token_map

raw_amounts = st.integers(0, 2**256 - 1)
decimals = st.integers(0, 77)


def exact(raw: int, places: int) -> Decimal:
    """A raw integer amount in token units, not rounded to the 28 digits of the default context."""
    return Decimal((0, tuple(map(int, str(raw))), -places))


@settings(deadline=None)
@given(raw_amounts, decimals)
def test_an_amount_of_256_bits_is_encoded_and_decoded_exactly(raw: int, places: int) -> None:
    value = exact(raw, places)
    sent = encode([holder(ALICE, 1, amount=json_number(value))])  # type: ignore[arg-type]
    (received,) = decode(sent, list[Holder])
    assert received.holder_data.amount == value


@pytest.mark.parametrize(
    ("value", "text"),
    [("5", b"5.0"), ("0", b"0.0"), ("1E+3", b"1000.0"), ("0.50", b"0.5"), ("1E+30", b"1" + b"0" * 30 + b".0")],
)
def test_json_numbers_have_a_decimal_and_no_exponent(value: str, text: bytes) -> None:
    assert encode(json_number(Decimal(value))) == text


@pytest.mark.parametrize(
    ("value", "read", "as_text"),
    [
        (float("nan"), None, "nan"),
        (float("-inf"), None, "-inf"),
        (Decimal("NaN"), None, "NaN"),
        (Decimal("-Infinity"), None, "-Infinity"),
        (Decimal("0.1"), 0.1, "0.1"),
        ("NaN", "NaN", "NaN"),
        ("a\ud800b", "a\ufffdb", "a\ufffdb"),
        ({"\udfff": {None: 1}}, {"\ufffd": {"None": 1}}, {"\ufffd": {"None": 1}}),
        (b"\xff\x00", "/wA=", "/wA="),
        (2**256, 2**256, 2**256),
        ([10**5_000], [hex(10**5_000)], [hex(10**5_000)]),
        ([object, (1.5, None)], ["<class 'object'>", [1.5, None]], ["<class 'object'>", [1.5, None]]),
        (datetime(2025, 1, 2), "2025-01-02T00:00:00", "2025-01-02T00:00:00"),
    ],
)
def test_each_value_becomes_valid_json(value: Any, read: Any, as_text: Any) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert json.loads(encode([value]), parse_constant=refuse) == [read]
    assert json.loads(encode([value], "text"), parse_constant=refuse) == [as_text]


@pytest.mark.parametrize("amount", ["1234567890.123456789012345678", str(2**255 + 1)])
def test_an_amount_that_a_float_would_round_stays_exact(amount: str) -> None:
    raw = b'[{"address": "0xa", "holder_data": {"amount": %s, "rank": 1, "share": 0.1}}]' % amount.encode()
    assert decode(raw, list[Holder])[0].holder_data.amount == Decimal(amount)


WHOLE = json.dumps(token_map()).encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html><body>502 Bad Gateway</body></html>",
        WHOLE[:-1],
        WHOLE[: len(WHOLE) // 2],
        WHOLE.replace(b"61.25", b"NaN"),
        WHOLE.replace(b"61.25", b"Infinity"),
        b"\xff\xfe{}",
    ],
    ids=["nothing", "a web page", "one byte short", "half", "NaN", "Infinity", "not UTF-8"],
)
def test_bytes_that_are_not_json_are_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedAnswer, match="not JSON"):
        decode(raw, Map)


@pytest.mark.parametrize("raw", [b"[]", b"null", b'"text"', b"{}", b'{"detail": "no holders"}'])
def test_json_of_another_shape_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        decode(raw, Map)


def test_the_message_names_the_field() -> None:
    plain = token_map()
    plain["nodes"]["top_holders"][1]["holder_data"]["rank"] = "second"
    with pytest.raises(MalformedAnswer, match=r"nodes\.top_holders\.1\.holder_data\.rank"):
        decode(json.dumps(plain).encode(), Map)


@pytest.mark.parametrize("number", [b"1e999999999", b"-1e400", b"1e-999999999"])
def test_a_number_too_long_for_memory_is_refused(number: bytes) -> None:
    raw = b'[{"address": "0xa", "holder_data": {"amount": %s, "rank": 1, "share": 0.1}}]' % number
    with pytest.raises(MalformedAnswer, match="amount"):
        decode(raw, list[Holder])


@pytest.mark.parametrize("number", [b"1e912345678", b"0e912345678", b"1e-912345678", b"1e5001"])
def test_an_integer_of_too_many_digits_is_refused_at_once(number: bytes) -> None:
    raw = b'[{"address": "0xa", "holder_data": {"amount": 1, "rank": %s, "share": 0.1}}]' % number
    with pytest.raises(MalformedAnswer, match="more than 5,000 digits"):
        decode(raw, list[Holder])


@pytest.mark.parametrize("plain", [{"a": [1, None, "é"]}, [], {"deep": {"er": Decimal("0.1")}}])
def test_plain_data_is_written_as_json(plain: Any) -> None:
    assert json.loads(encode(plain), parse_float=Decimal) == plain
