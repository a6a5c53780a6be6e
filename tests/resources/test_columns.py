"""Amounts as they stand in an answer become exact columns, however many digits stand before and after the point."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from contract.tables import amount_columns
from resources.columns import amounts_of

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
