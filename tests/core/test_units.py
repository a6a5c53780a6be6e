"""Durations, sizes, counts and shares as text."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holderlake.core.units import counted, parse_duration, parse_memory_limit, percentage


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), (" 24 h", 86_400), ("7d", 604_800), ("2w", 1_209_600), ("0", 0)]
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "180", "h", "-1d", "1.5d", "1y", "soon"])
def test_an_invalid_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=f"invalid duration '{text}': use for example 30s, 5m, 24h or 7d"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "size"), [("64MB", 64 * 10**6), ("1.5 GB", 15 * 10**8), ("2gb", 2 * 10**9)])
def test_a_memory_limit_is_a_number_of_bytes(text: str, size: int) -> None:
    assert parse_memory_limit(text) == size


@pytest.mark.parametrize("text", ["", "2", "63MB", "GB", "-1GB", "many"])
def test_an_invalid_memory_limit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid memory limit"):
        parse_memory_limit(text)


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [(1, "chain", "1 chain"), (0, "chain", "0 chains"), (1_234, "address", "1,234 addresses")],
)
def test_a_count_has_its_noun(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text


@pytest.mark.parametrize(
    ("number", "verb", "text"),
    [
        (1, "is", "1 row is"),
        (0, "is", "0 rows are"),
        (2, "has", "2 rows have"),
        (1_000, "differs", "1,000 rows differ"),
    ],
)
def test_a_verb_agrees_with_its_count(number: int, verb: str, text: str) -> None:
    assert counted(number, "row", verb) == text


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [
        (0.9998, 1, "99.9"),
        (0.9998, 2, "99.98"),
        (0.99999, 2, "99.99"),
        (0.999, 0, "99"),
        (0.9494, 1, "94.9"),
        (1.0, 1, "100.0"),
        (0.1 + 0.2 + 0.7 - 2e-16, 1, "100.0"),
        (1.25, 1, "125.0"),
        (0.0, 1, "0.0"),
    ],
)
def test_only_all_of_the_supply_is_100_percent(share: float, digits: int, text: str) -> None:
    assert percentage(share, digits) == text
