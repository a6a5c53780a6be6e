"""The table ``spending``: the calls of the credit ledger, summed by day, run, endpoint and token.

A load adds the ledger's new days, and replaces those whose totals changed. Other days are not read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final, Protocol

import duckdb
import pyarrow as pa

from holderlake.core.contract.tables import Table, column


class LedgerReader(Protocol):
    """The credit ledger, as the warehouse reads it (``provider.ledger.ledger.CreditLedger``). Days are YYYY-MM-DD."""

    def newest(self) -> int:
        """Return the number of the newest entry."""
        ...

    def totals_by_day(self) -> Mapping[str, tuple[int, int]]:
        """Return the cost and the number of open calls of each day."""
        ...

    def spending(self, day: str) -> Sequence[Sequence[Any]]:
        """Return a row for each run, endpoint and subject of a day: see ``provider.ledger.statements.SPENDING``."""
        ...


CREDITS: Final = pa.decimal128(18, 2)
"""Type of credits."""


TABLE: Final = Table(
    "spending",
    "the calls of a run to an endpoint on a day about one token; chain and token are null for calls about several",
    pa.schema(
        [
            column("day", pa.date32(), "Day of the calls, UTC"),
            column("run_id", pa.string(), "Dagster's id of the run"),
            column("endpoint", pa.string(), "Endpoint of the API: map, holders, tokens_metadata, …"),
            column("chain", pa.string(), "Chain id", required=False),
            column("token_address", pa.string(), "The token's contract address, or native", required=False),
            column("calls", pa.int64(), "Calls that were charged"),
            column("open_calls", pa.int64(), "Calls with an unknown outcome, which may have been charged"),
            column("uncharged_calls", pa.int64(), "Calls that were not charged"),
            column("problems", pa.int64(), "Calls with unusable answers, charged or not"),
            column("expected", CREDITS, "Credits of all these calls by the price list"),
            column("billed", CREDITS, "Credits that the provider charged"),
            column("open", CREDITS, "Credits of the calls with an unknown outcome"),
        ]
    ),
    ("day", "run_id", "endpoint", "chain", "token_address"),
)

_HELD_TOTALS: Final = """
SELECT strftime(day, '%Y-%m-%d'), (CAST(100 * sum(billed + open) AS BIGINT), CAST(sum(open_calls) AS BIGINT))
FROM spending
GROUP BY day
"""


def version(ledger: LedgerReader) -> str:
    """Return a text that changes when the ledger gets calls, or other costs."""
    totals = ledger.totals_by_day().values()
    return f"{ledger.newest()} {sum(cost for cost, _ in totals)} {sum(open_calls for _, open_calls in totals)}"


def refresh(connection: duckdb.DuckDBPyConnection, ledger: LedgerReader) -> None:
    """Replace the rows of the newest day in the table, of later ones, and of days whose totals in the ledger differ."""
    known_totals = dict(connection.execute(_HELD_TOTALS).fetchall())
    newest = max(known_totals, default="")
    totals = ledger.totals_by_day()
    changed = {day for day, total in totals.items() if day >= newest or known_totals.get(day) != total}
    for day in sorted(changed | (known_totals.keys() - totals.keys())):
        rows = pa.Table.from_pylist([_row(day, entry) for entry in ledger.spending(day)], TABLE.schema)
        connection.execute("DELETE FROM spending WHERE day = CAST(? AS DATE)", [day])
        connection.register("new_spending", rows)
        connection.execute("INSERT INTO spending BY NAME FROM new_spending")
        connection.unregister("new_spending")


def _row(day: str, entry: Sequence[Any]) -> dict[str, Any]:
    run_id, endpoint, subject, *counts = entry
    chain, _, token = (subject or "").partition("/")
    credits = [Decimal(hundredths).scaleb(-2) for hundredths in counts[4:]]
    names = (date.fromisoformat(day), run_id, endpoint, chain or None, token or None)
    return dict(zip(TABLE.schema.names, (*names, *counts[:4], *credits), strict=True))
