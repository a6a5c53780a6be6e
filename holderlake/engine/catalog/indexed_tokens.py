"""Indexed tokens: tokens whose transfers count on the maps of all tokens, not only on their own.

A mark is an entry of one source for one token: indexed, or not indexed. Up to four sources can mark a token, and the
first of them in ``SOURCES`` decides. The column ``tokens.is_indexed`` has the decision. A token can be marked before
its transfers are imported.

A large number of transfers does not make a token indexed. Otherwise spam tokens would connect holders.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from holderlake.engine.catalog.changelog import EVERY_PAST, note_change
from holderlake.engine.records import Key

SETTINGS: Final = "settings"
COMMAND: Final = "command"
LISTED: Final = "token list"
IMPORT: Final = "import"
SOURCES: Final = (SETTINGS, COMMAND, LISTED, IMPORT)
"""Sources of marks in order of precedence: the settings, ``holderlake store index``, a token list, and an import that
names the token."""

_SET_INDEXED: Final = """
INSERT INTO index_marks (chain, address, source, precedence, is_indexed) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (chain, address, source) DO UPDATE SET is_indexed = excluded.is_indexed
WHERE is_indexed IS NOT excluded.is_indexed
"""
_DECIDING: Final = """
SELECT chain, address, source FROM (
    SELECT
        chain, address, source, is_indexed,
        row_number() OVER (PARTITION BY chain, address ORDER BY precedence DESC) AS place
    FROM index_marks
)
WHERE place = 1 AND is_indexed
"""
_KEYS: Final = f"SELECT chain, address FROM ({_DECIDING})"
# The plus prevents SQLite from reading all tokens through an index that begins with is_indexed.
_ADD: Final = f"UPDATE tokens SET is_indexed = 1 WHERE +is_indexed = 0 AND (chain, address) IN ({_KEYS})"
_REMOVE: Final = f"UPDATE tokens SET is_indexed = 0 WHERE is_indexed = 1 AND (chain, address) NOT IN ({_KEYS})"
_UPDATE_ONE: Final = """
UPDATE tokens SET is_indexed = 1
WHERE chain = :chain AND address = :address AND (
    SELECT is_indexed FROM index_marks WHERE chain = :chain AND address = :address ORDER BY precedence DESC LIMIT 1
)
"""
_OF_SOURCE: Final = "SELECT chain, address FROM index_marks WHERE source = ? AND is_indexed ORDER BY 1, 2"
_LIST: Final = f"""
SELECT chain, address, source, symbol, name
FROM ({_DECIDING}) LEFT JOIN tokens USING (chain, address)
ORDER BY chain, address
"""


@dataclass(frozen=True)
class IndexedToken:
    """An indexed token, and the source whose mark decides.

    ``symbol`` and ``name`` are None if the store has no metadata of the token.
    """

    chain: str
    address: str
    source: str
    symbol: str | None
    name: str | None


def mark(catalog: sqlite3.Connection, keys: Iterable[Key], source: str, is_indexed: bool) -> bool:
    """Store a source's mark for tokens: indexed or not indexed.

    Return True if the mark changed the column ``is_indexed`` of any token.
    """
    precedence = len(SOURCES) - SOURCES.index(source)
    catalog.executemany(_SET_INDEXED, [(*key, source, precedence, is_indexed) for key in keys])
    return refresh(catalog)


def replace_marks(catalog: sqlite3.Connection, keys: Collection[Key], source: str) -> None:
    """Make ``keys`` the only tokens that ``source`` marks as indexed.

    If ``source`` already marks exactly these tokens, write nothing. If ``is_indexed`` of any token changes, add a
    change to the change log.
    """
    if catalog.execute(_OF_SOURCE, (source,)).fetchall() == sorted(set(keys)):
        return
    catalog.execute("DELETE FROM index_marks WHERE source = ?", (source,))
    if mark(catalog, keys, source, True):
        note_change(catalog, EVERY_PAST)


def refresh(catalog: sqlite3.Connection) -> bool:
    """Set the column ``tokens.is_indexed`` from the marks. Return True if the value of any token changed."""
    changes_before = catalog.total_changes
    catalog.execute(_ADD)
    catalog.execute(_REMOVE)
    return catalog.total_changes > changes_before


def refresh_new(catalog: sqlite3.Connection, chain: str, address: str) -> None:
    """Set ``tokens.is_indexed`` of one new token from its marks, if it has any."""
    catalog.execute(_UPDATE_ONE, {"chain": chain, "address": address})


def indexed_tokens(catalog: sqlite3.Connection) -> list[IndexedToken]:
    """Return all indexed tokens, also those without transfers, sorted by chain and address."""
    return [IndexedToken(*row) for row in catalog.execute(_LIST)]


def indexed_keys(catalog: sqlite3.Connection) -> list[Key]:
    """Return the known tokens whose transfers count on every map, sorted by chain and address."""
    return list(catalog.execute("SELECT chain, address FROM tokens WHERE is_indexed = 1 ORDER BY 1, 2"))
