"""Finds tokens by address, symbol or name, in the same time however many tokens there are.

Every step reads an index in the order of its results and stops at the limit, so nothing is sorted or counted whole.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Final

from contract.chains import normalise_address
from engine.catalog import INFO_COLUMNS, folded, token_info
from engine.records import TokenInfo

_BY_ADDRESS: Final = f"""
SELECT {INFO_COLUMNS} FROM tokens
WHERE address = :address
ORDER BY is_indexed DESC, chain
LIMIT :limit
"""

_EXACT: Final = """
SELECT {columns} FROM tokens
WHERE is_indexed = {indexed} AND {text} = :text
ORDER BY chain, address
LIMIT :limit
"""

_BEGINNING: Final = """
SELECT {columns} FROM tokens
WHERE is_indexed = {indexed} AND {text} > :text AND {text} < :end
ORDER BY {text}, chain, address
LIMIT :limit
"""

_STEPS: Final = (
    _BY_ADDRESS,
    *(
        step.format(columns=INFO_COLUMNS, indexed=indexed, text=text)
        for step, order in (
            (_EXACT, (("folded_symbol", 1), ("folded_symbol", 0), ("folded_name", 1), ("folded_name", 0))),
            (_BEGINNING, (("folded_symbol", 1), ("folded_name", 1), ("folded_symbol", 0), ("folded_name", 0))),
        )
        for text, indexed in order
    ),
)

_LAST_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)
_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
"""No token's text has half a surrogate pair, and SQLite takes none."""


def search(catalog: sqlite3.Connection, text: str, limit: int) -> list[TokenInfo]:
    """At most ``limit`` tokens: by exact address, exact symbol, exact name, then the beginning of symbol or name.

    Indexed tokens come first in each of these. Among tokens whose symbol or name begins so, symbols stand before
    names, then the alphabet decides, then chain and address. Neither case, nor width, nor blanks around the text
    matter; in an address that is not hexadecimal case does.
    """
    begins = folded(text)
    if not begins or _HALF_PAIR.search(text):
        return []
    bound = {"address": normalise_address(text), "text": begins, "end": _end_of_prefix(begins), "limit": limit}
    found: dict[tuple[str, str], TokenInfo] = {}
    for step in _STEPS:
        if len(found) >= limit:
            break
        # what a step finds again was found before it, so `limit` rows of a step are always enough
        for row in catalog.execute(step, bound):
            found.setdefault(row[:2], token_info(row))
    return list(found.values())[:limit]


def _end_of_prefix(text: str) -> str | bytes:
    """The least value that is greater than every text with the prefix, in SQLite's order (bytes of UTF-8)."""
    kept = text.rstrip(chr(_LAST_CODE_POINT))
    if not kept:
        return b""  # greater than any text
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
