"""Values as they stand in an answer are put together and taken apart again, and amounts become exact columns."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest

from holderlake.contract.tables import amount_columns
from holderlake.decoding.columns import amounts_of, apart, together

BEFORE = ["0", "-7", "9" * 17, "9" * 18, "9" * 19, "9" * 20, "1" + "0" * 20, "9" * 38, str(2**128)]
AFTER = ["", ".5", "." + "9" * 17, "." + "9" * 18, "." + "9" * 19, "." + "1" * 40]


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("before", BEFORE)
def test_an_amount_is_what_the_contract_makes_of_it_alone_and_beside_a_short_one(before: str, after: str) -> None:
    told = [before + after, "1.5"]
    for texts in (told, told[:1]):
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
def test_values_that_were_put_together_come_apart_as_they_were_whatever_their_lengths(values: list[bytes]) -> None:
    for cut in range(len(values) + 1):
        pieces = [together(map(msgspec.Raw, some)) for some in (values[:cut], values[cut:]) if some]
        found = apart(pieces, len(values))
        assert (found.type, found.to_pylist()) == (pa.binary(), values)


@pytest.mark.parametrize("values", [[b"a\x1fb"], [b"\x1f", b"c"], [b"a\x1fb", b"cde"]])
def test_values_with_a_byte_that_json_does_not_know_do_not_come_apart(values: list[bytes]) -> None:
    with pytest.raises(ValueError, match="a byte that JSON does not allow"):
        apart([together(map(msgspec.Raw, values))], len(values))
