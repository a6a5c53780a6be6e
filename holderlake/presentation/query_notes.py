"""Notes about a user's query: old answers, days that a comparison leaves out, addresses and symbols that match no row.

The notes come from the text of the query, with the values of its placeholders: calls of macros as of a literal time,
and literals that name tokens or days. The command, Python and the assistants' tools give the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from holderlake.core.contract.tables import MAP_TABLES
from holderlake.core.warehouse.schema import quoted
from holderlake.core.warehouse.warehouse import Warehouse

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
_DAY: Final = r"(?:\b(?:DATE|TIMESTAMP)\s*)?'\s*(\d{4}-\d\d?-\d\d?)\s*'(?!\s*(?:::\s*DATE|(?:::\s*\w+\s*)?[-+*/]))"
"""A literal of a day that is no part of arithmetic, such as the addition of an interval."""
_OF_DAY: Final = re.compile(
    rf"(\w+)\s*(<=|>|==?)\s*{_DAY}|(\w+)\s+(BETWEEN)\s+[^()]*?\bAND\s+{_DAY}"
    rf"|(?<![-+*/] ){_DAY}\s*(>=|<|==?)\s*(\w+)",
    re.IGNORECASE,
)
"""A comparison of a column with a day: column, operator and day, or in the reverse order."""
_AFTER: Final = "is compared with the beginning of {day}, so that"
_DAY_NOTES: Final = {
    "<=": f"{_AFTER} the day itself is left out: write {{column}} < DATE '{{day}}' + 1 to include it",
    ">": f"{_AFTER} the day itself is included: write {{column}} >= DATE '{{day}}' + 1 to leave it out",
    "=": f"{_AFTER} only the day's first instant matches: write CAST({{column}} AS DATE) = '{{day}}' for the day",
}
_SAME: Final = {"BETWEEN": "<=", ">=": "<=", "<": ">", "==": "="}
"""The operator with the column before the day that means the same."""
_SECONDS: Final = re.compile(r"\w+_(?:time|transfer)|held_(?:from|until)|(?:fetched|written|undone)_at", re.IGNORECASE)
"""Columns with the seconds of transfers and fetches. Others, such as timestamp, may be midnights on purpose."""
_A_TIME: Final = re.compile(r"\s*\d{1,4}-\d")
_DATES: Final = {"day", "period", "cohort", "date"}
"""Columns whose values are dates, so that a comparison with a date includes the day."""
_SYMBOL: Final = re.compile(r"\bsymbol\s*(?:=|IN\s*\()\s*((?:'[^']*'\s*,?\s*)+)", re.IGNORECASE)
_ONE_TOKEN: Final = re.compile(r"\b(?:chain|token_address)\s*(?:=|IN\b)|GROUP BY[^)]*\bchain\b", re.IGNORECASE)
_OF_STORE: Final = re.compile(
    r"\b(balances_at|item_owners?_at|holders_by_owner|concentration_by_owner|(?:\w+_by_(?:period|day))|supply_age|retention|"
    r"net_flows)\s*\(\s*'([^']+)'([^()]*)",
    re.IGNORECASE,
)
"""A call of a macro about all holders: its name, the token, and the other arguments."""
_ALL_HOLDERS: Final = {
    "holding_periods": "holding_times(token)",
    "holder_overlap": "balances_at(token, t) of both tokens",
    "holder_changes": "net_flows(token, first_day, last_day)",
    "concentration_history": "concentration_by_period(token, each, first_day, last_day)",
    "owners_as_of": "holders_by_owner(token, t)",
    "address_history": "balance_history(address, token)",
} | dict.fromkeys(
    ["holders", "latest_holders", "listed_holders", "holders_as_of", "holders_known_at", "holders_on_maps_as_of"],
    "balances_at(token, t)",
)
"""Views and macros that read lists of the largest holders, with the macro that reads all holders of a stored token."""
_OF_LISTS: Final = re.compile(rf"\b(?:FROM|JOIN)\s+(?:\w+\.)*({'|'.join(_ALL_HOLDERS)})\b", re.IGNORECASE)
_OWN_NAME: Final = re.compile(r"\b(\w+)\s+AS\s+(?:(?:NOT\s+)?MATERIALIZED\s+)?\(", re.IGNORECASE)
"""A name that WITH gives to a query."""
_LISTS_NOTE: Final = """
SELECT
    {name} || ' reads lists of the largest holders. Your store has all holders of '
    || CASE WHEN count(*) = 1 THEN any_value(symbol) ELSE count(*) || ' of its tokens' END
    || ': ' || {instead} || ' answers from them' AS note
FROM stored_tokens
WHERE token_address IN ({tokens}) OR NOT EXISTS ({tokens})
HAVING count(*) > 0
"""
_SYMBOL_NOTE: Final = """
SELECT
    CASE
        WHEN count(*) FILTER (symbol = {symbol}) = 0
        THEN 'symbol = ' || {literal} || ' matches no token, but ' || string_agg(DISTINCT symbol, ', ')
            || ' exists: upper and lower case matter here, and token_of takes both'
        ELSE 'symbol = ' || {literal} || ' has the rows of ' || count(*) || ' tokens: '
            || string_agg(token_address || ' on ' || chain, ', ' ORDER BY chain, token_address)
            || '; name one by token_address, or group by chain and token_address'
    END AS note
FROM known_tokens
WHERE lower(symbol) = lower({symbol})
HAVING count(*) FILTER (symbol = {symbol}) = 0 AND count(*) > 0
    OR {is_open} AND count(*) FILTER (symbol = {symbol}) > 1
"""
_END_NOTE: Final = """
SELECT
    {call} || ' knows no transfer after ' || strftime(last_transfer, '%Y-%m-%d %H:%M')
    || ' UTC, the last one of your store on ' || chain AS note
FROM stored_tokens
WHERE token_address = token_of({token}) AND instant({time}) > last_transfer + as_of_warning()
"""
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


def warehouse_notes(warehouse: Warehouse, sql: str) -> list[str]:
    """Return all notes about a query of the warehouse."""
    return query_notes(sql, lambda of_data: warehouse.query(of_data)["note"].to_pylist())


def query_notes(sql: str, ask: Callable[[str], list[str]]) -> list[str]:
    """Return all notes about a query. ``ask`` returns the values of the column ``note`` of a query."""
    return [*text_notes(sql), *(ask(of_data) if (of_data := data_notes(sql)) else [])]


def text_notes(sql: str) -> Iterator[str]:
    """Yield the notes that need no data.

    They are about hexadecimal addresses with capitals, and about days that a comparison with a time leaves out.
    """
    for address in dict.fromkeys(_COMPARED.findall(sql)):
        if address != address.lower():
            yield (
                f"'{address}' matches no row, because addresses in hexadecimal are stored in lower case: write "
                f"plain_address('{address}')"
            )
    for groups in dict.fromkeys(match.groups() for match in _OF_DAY.finditer(sql)):
        if groups[6]:
            day, operator, column = groups[6:]
        else:
            column, operator, day = filter(None, groups)
        operator = _SAME.get(operator.upper(), operator)
        if _SECONDS.fullmatch(column) or (operator == "<=" and column.lower() not in _DATES):
            yield f"{column} " + _DAY_NOTES[operator].format(column=column, day=day)


def data_notes(sql: str) -> str | None:
    """Return SQL whose rows are the notes that need data: old answers, and symbols that are no or several tokens."""
    notes = []
    for literals in _SYMBOL.findall(sql):
        for literal in _LITERAL.findall(literals):
            symbol = quoted(literal.replace("''", "'"))
            is_open = not _ONE_TOKEN.search(sql)
            notes.append(_SYMBOL_NOTE.format(symbol=symbol, literal=quoted(symbol), is_open=is_open))
    for macro, token, others in _OF_STORE.findall(sql):
        if times := [text for text in _LITERAL.findall(others) if _A_TIME.match(text)]:
            call = quoted(f"{macro} of {token} as of {times[-1]}")
            notes.append(_END_NOTE.format(call=call, token=quoted(token), time=quoted(times[-1])))
    own = set(map(str.lower, _OWN_NAME.findall(sql)))
    for name in dict.fromkeys(name for found in _OF_LISTS.findall(sql) if (name := found.lower()) not in own):
        instead = quoted(_ALL_HOLDERS[name])
        notes.append(_LISTS_NOTE.format(name=quoted(name), instead=instead, tokens=_tokens(sql)))
    return "UNION ALL".join([*dict.fromkeys(notes), *filter(None, [age_notes(sql)])]) or None


def _tokens(sql: str) -> str:
    """Return SQL for the addresses of the tokens that the literals of a query name."""
    literals = [literal.replace("''", "'").lower() for literal in _LITERAL.findall(sql)]
    names = ", ".join(quoted(literal) for literal in literals if not _A_TIME.match(literal)) or "''"
    return _TOKENS.format(names=names)


def age_notes(sql: str) -> str | None:
    """Return SQL whose rows are notes about the answers that the query takes from much earlier than it requests.

    None if the query calls no macro as of a literal time.
    """
    tokens = _tokens(sql)
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
