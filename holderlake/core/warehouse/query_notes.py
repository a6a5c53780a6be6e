"""Notes about a user's query: answers that are much older than requested, and addresses that match no row.

The notes come from the text of the query: calls of macros as of a literal time, and literals that name tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from holderlake.core.contract.tables import MAP_TABLES
from holderlake.core.warehouse.schema import quoted

_FAMILIES: Final = {
    "tokens_as_of": "tokens",
    "holders_as_of": "holders",
    "owners_as_of": "holders",
    "holder_overlap": "holders",
    "holder_changes": "holders",
    "cluster_flows": "maps",
    "exchange_flows": "maps",
} | {f"{table}_as_of": "maps" for table in MAP_TABLES}
"""Family of the answers of each macro as of an instant."""
_TIME: Final = r"(?:\b(?:DATE|TIMESTAMP)\s*)?'([^']+)'\s*"
_CALL: Final = re.compile(rf"\b({'|'.join(_FAMILIES)})\s*\(\s*{_TIME}(?:,\s*{_TIME})?", re.IGNORECASE)
_LITERAL: Final = re.compile(r"'((?:[^']|'')*)'")
_COMPARED: Final = re.compile(r"(?:[=<>]|\bIN\s*\((?:\s*'[^']*'\s*,)*)\s*'(0[xX][0-9a-fA-F]{40,64})'", re.IGNORECASE)
_NOTE: Final = """
SELECT
    {call} || ' answers with ' || strftime(arg_max(timestamp, days_earlier), '%Y-%m-%d %H:%M') || ' UTC for '
    || arg_max(coalesce(symbol, token_address), days_earlier) || ', ' || max(days_earlier)
    || ' days before the requested ' || strftime(max(requested), '%Y-%m-%d %H:%M')
    || CASE count(*)
        WHEN 1 THEN ''
        WHEN 2 THEN '; 1 more token has an old answer'
        ELSE '; ' || (count(*) - 1) || ' more tokens have old answers'
    END AS note
FROM answered_as_of({family}, {time})
LEFT JOIN symbols USING (chain, token_address)
WHERE is_outdated AND (token_address IN ({tokens}) OR NOT EXISTS ({tokens}))
HAVING count(*) > 0
"""
_TOKENS: Final = "SELECT token_address FROM known_tokens WHERE token_address IN ({names}) OR lower(symbol) IN ({names})"


def case_notes(sql: str) -> Iterator[str]:
    """Yield a note for each hexadecimal address with capitals that the query compares with a column."""
    for address in dict.fromkeys(_COMPARED.findall(sql)):
        if address != address.lower():
            yield (
                f"'{address}' matches no row, because addresses in hexadecimal are stored in lower case: write "
                f"plain_address('{address}')"
            )


def age_notes(sql: str) -> str | None:
    """Return SQL whose rows are notes about the answers that the query takes from much earlier than it requests.

    None if the query calls no macro as of a literal time.
    """
    names = ", ".join(quoted(literal.replace("''", "'").lower()) for literal in _LITERAL.findall(sql)) or "''"
    tokens = _TOKENS.format(names=names)
    calls = [
        (f"{macro}('{time}')", _FAMILIES[macro.lower()], time)
        for macro, *times in _CALL.findall(sql)
        for time in times
        if time
    ]
    notes = (
        _NOTE.format(call=quoted(call), family=quoted(family), time=quoted(time), tokens=tokens)
        for call, family, time in dict.fromkeys(calls)
    )
    return "UNION ALL".join(notes) or None
