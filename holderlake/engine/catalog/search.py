"""Search tokens by address, symbol, name or words of a name, in a time that does not depend on the number of tokens.

Each step reads an index in the order of its results and stops at its limit, so no step sorts or counts all tokens.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Final

from holderlake.contract.chains import normalise_address
from holderlake.engine.catalog.tokens import INFO_COLUMNS, WORD, folded, token_info
from holderlake.engine.records import TokenInfo

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

_CANDIDATES: Final = 10_000
"""The most names that the last search step compares with the words of a query."""
_MOST_WORDS: Final = 8

_BY_WORDS: Final = f"""
WITH candidates AS (
    SELECT word, chain, address FROM words
    WHERE is_indexed = {{indexed}} AND word >= :word0 AND word < :end0
    ORDER BY word, chain, address
    LIMIT {_CANDIDATES}
),
matching AS (
    SELECT min(word) AS word, chain, address FROM candidates
    WHERE TRUE {{other_words}}
    GROUP BY chain, address
    ORDER BY 1, 2, 3
    LIMIT 2 * :limit
)
SELECT {INFO_COLUMNS} FROM matching CROSS JOIN tokens USING (chain, address)
ORDER BY word, chain, address
"""

_OTHER_WORD: Final = """
AND EXISTS (
    SELECT 1 FROM words
    WHERE words.chain = candidates.chain AND words.address = candidates.address
        AND words.word >= :word{n} AND words.word < :end{n}
)
"""

_LAST_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)
_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
"""Half of a UTF-16 surrogate pair. No token's text contains one, and SQLite refuses it."""


def search(catalog: sqlite3.Connection, text: str, limit: int) -> list[TokenInfo]:
    """Return at most ``limit`` tokens that match ``text``, in the order of five search steps.

    The steps are: exact address; exact symbol; exact name; prefix of symbol or name; words of the name. The last step
    finds names in which each word of ``text`` is the beginning of a word. Within a step, indexed tokens come first,
    then symbols before names, then alphabetical order, then chain and address. Upper and lower case, character width
    and surrounding spaces are ignored. Case counts only in addresses that are not hexadecimal.
    """
    begins = folded(text)
    if not begins or _HALF_PAIR.search(text):
        return []
    bound = {"address": normalise_address(text), "text": begins, "end": _end_of_prefix(begins), "limit": limit}
    tokens: dict[tuple[str, str], TokenInfo] = {}
    steps, words = _word_steps(begins)
    bound |= words
    for step in (*_STEPS, *steps):
        if len(tokens) >= limit:
            break
        # A step may repeat tokens of earlier steps, so each step reads up to the limit.
        for row in catalog.execute(step, bound):
            tokens.setdefault(row[:2], token_info(row))
    return list(tokens.values())[:limit]


def _word_steps(text: str) -> tuple[list[str], dict[str, str | bytes]]:
    """Return the SQL queries that find names by the words of ``text``, and the parameters of the queries.

    The queries look up the longest word first, because long words are usually rare.
    """
    words = sorted(set(text.split()), key=lambda word: (-len(word), word))[:_MOST_WORDS]
    if not all(map(WORD.fullmatch, words)):  # a character that no word of a name contains
        return [], {}
    other_words = "".join(_OTHER_WORD.format(n=n) for n in range(1, len(words)))
    bound: dict[str, str | bytes] = {f"word{n}": word for n, word in enumerate(words)}
    bound |= {f"end{n}": _end_of_prefix(word) for n, word in enumerate(words)}
    return [_BY_WORDS.format(indexed=indexed, other_words=other_words) for indexed in (1, 0)], bound


def _end_of_prefix(text: str) -> str | bytes:
    """Return the least value that sorts after every text with the prefix ``text``.

    The order is that of SQLite: by the bytes of UTF-8.
    """
    stem = text.rstrip(chr(_LAST_CODE_POINT))
    if not stem:
        return b""  # greater than any text
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
