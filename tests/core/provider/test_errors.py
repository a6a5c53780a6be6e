"""Error answers turned into exceptions."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holderlake.core.contract.errors import ERROR_KINDS
from holderlake.core.provider import errors
from holderlake.core.provider.errors import ProviderError
from holderlake.core.provider.refusals import error_of


def test_every_error_code_of_the_contract_has_an_exception() -> None:
    for kind in ERROR_KINDS.values():
        failure = error_of(kind.status, json.dumps({"detail": kind.when, "code": kind.code}).encode(), {})
        assert (failure.code, failure.detail, failure.status) == (kind.code, kind.when, kind.status)
        assert failure.retryable is kind.retryable
        assert failure.retryable is isinstance(failure, errors.TransientError)


@given(
    status=st.integers(300, 599),
    raw=st.binary(max_size=80)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["detail", "code", "loc"]), inner),
    ).map(lambda body: json.dumps(body).encode()),
    headers=st.dictionaries(st.sampled_from(["retry-after", "location"]), st.text(max_size=12)),
)
@settings(deadline=None)
def test_any_error_answer_becomes_an_exception(status: int, raw: bytes, headers: dict[str, str]) -> None:
    failure = error_of(status, raw, headers)
    assert isinstance(failure, ProviderError)
    assert failure.status == status
    assert str(failure)
    copy = pickle.loads(pickle.dumps(failure))
    assert (str(copy), copy.maybe_charged) == (str(failure), failure.maybe_charged)


def test_retry_after_may_be_a_date() -> None:
    soon = datetime.now(UTC) + timedelta(seconds=1_000)
    failure = error_of(503, b"", {"retry-after": format_datetime(soon, usegmt=True)})
    assert isinstance(failure, errors.Unavailable)
    assert failure.retry_after == pytest.approx(1_000, abs=60)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "soon",
        "***",
        "nan",
        "inf",
        "1e3",
        "1_0",
        "٣",
        "0\x1f",
        "Fri, 99 Nov 2026",
        "Mon, 01 Jan 0001 00:00:00 +1400",
    ],
)
def test_invalid_retry_after_is_ignored(said: str) -> None:
    failure = error_of(503, b"", {"retry-after": said})
    assert isinstance(failure, errors.Unavailable)
    assert failure.retry_after in (None, 0)


def test_deeply_nested_detail_is_shortened() -> None:
    failure = error_of(422, b'{"detail":' + b"[" * 900 + b"]" * 900 + b"}", {})
    assert len(str(failure)) < 1_000


def test_a_403_means_the_plan_only_for_custom_plan_endpoints() -> None:
    assert isinstance(error_of(403, b"", {}, "addresses_metadata"), errors.PlanRequired)
    assert isinstance(error_of(403, b'{"code": "plan_required"}', {}, "map"), errors.PlanRequired)
    assert isinstance(error_of(403, b"", {}, "map"), errors.Forbidden)
    assert isinstance(error_of(403, b'{"code": "invalid_key"}', {}, "addresses_metadata"), errors.InvalidKey)


@pytest.mark.parametrize(
    ("said", "wait"),
    [("-5", 0), ("1e999", None), ("99999999999", 99_999_999_999), ("Fri, 31 Dec 9999 23:59:59 GMT", None)],
)
def test_unusual_retry_after_is_read(said: str, wait: float | None) -> None:
    failure = error_of(503, b"", {"retry-after": said})
    assert isinstance(failure, errors.Unavailable)
    assert wait is None or failure.retry_after == wait
