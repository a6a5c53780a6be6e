"""Columns of raw values: joined and split texts, and exact amounts."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest

from holderlake.core.contract.tables import amount_columns
from holderlake.core.decoding.columns import amounts_of, joined_texts, split

BEFORE = ["0", "-7", "9" * 17, "9" * 18, "9" * 19, "9" * 20, "1" + "0" * 20, "9" * 38, str(2**128)]
AFTER = ["", ".5", "." + "9" * 17, "." + "9" * 18, "." + "9" * 19, "." + "1" * 40]


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("before", BEFORE)
def test_amount_columns_equal_those_of_the_contract(before: str, after: str) -> None:
    both = [before + after, "1.5"]
    for texts in (both, both[:1]):
        expected = [amount_columns("amount", Decimal(text)) for text in texts]
        columns = amounts_of("amount", pa.array(texts, pa.string()))
        for name, column in columns.items():
            assert column.to_pylist() == [each[name] for each in expected]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [b""],
        [b"one"],
        [b"one", b"two"],
        [b"", b"", b""],
        [b"one", b"or", b"four"],
        [b"four", b"or", b"one", b"six"],
    ],
)
def test_joined_values_are_split_into_the_same_values(values: list[bytes]) -> None:
    for cut in range(len(values) + 1):
        pieces = [joined_texts(map(msgspec.Raw, some)) for some in (values[:cut], values[cut:]) if some]
        found = split(pieces, len(values))
        assert (found.type, found.to_pylist()) == (pa.binary(), values)


@pytest.mark.parametrize("values", [[b"a\x1fb"], [b"\x1f", b"c"], [b"a\x1fb", b"cde"]])
def test_split_rejects_values_with_a_separator(values: list[bytes]) -> None:
    with pytest.raises(ValueError, match="a byte that JSON does not allow"):
        split([joined_texts(map(msgspec.Raw, values))], len(values))
