"""Metadata of tokens in the catalogue, and the search by address, symbol or name."""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from holderlake.core.contract.chains import KNOWN_CHAINS, NATIVE, normalise_address
from holderlake.engine.catalog import indexed_tokens
from holderlake.engine.records import Key, TokenInfo

INFO_COLUMNS: Final = "chain, address, name, symbol, decimals, standard, is_indexed, img_url, unsupported, assumed"
"""The columns that ``token_info`` reads."""
WORD: Final = re.compile(r"\w+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_INSERT: Final = f"""
INSERT INTO tokens ({INFO_COLUMNS}, folded_symbol, folded_name)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_STATED: Final = "iif(excluded.standard = 'erc20', tokens.standard, excluded.standard)"
"""The standard of a token: lists that state none count as ERC-20, so that another one that is stored is kept."""
_SAVE: Final = f"""
{_INSERT}
ON CONFLICT (chain, address) DO UPDATE SET
    name = excluded.name,
    symbol = excluded.symbol,
    decimals = excluded.decimals,
    standard = {_STATED},
    img_url = excluded.img_url,
    unsupported = excluded.unsupported,
    assumed = excluded.assumed,
    folded_symbol = excluded.folded_symbol,
    folded_name = excluded.folded_name
WHERE (name, symbol, decimals, standard, img_url, unsupported, assumed) IS NOT (
    excluded.name, excluded.symbol, excluded.decimals, {_STATED}, excluded.img_url, excluded.unsupported,
    excluded.assumed
)
"""
_ASSUME: Final = f"""
{_INSERT}
-- Opening balances and token lists may be imported before transfers, which know the standard.
ON CONFLICT (chain, address) DO UPDATE SET
    decimals = iif(assumed, excluded.decimals, decimals), standard = excluded.standard
WHERE standard <> excluded.standard AND (assumed OR standard = 'erc20')
"""
_READ: Final = f"""
SELECT {INFO_COLUMNS} FROM tokens
JOIN json_each(?) AS one ON chain = json_extract(one.value, '$[0]') AND address = json_extract(one.value, '$[1]')
"""
_CHAINS: Final = """
-- Step from one chain to the next in the index of the key; DISTINCT would read all tokens.
WITH RECURSIVE known (chain) AS (
    SELECT min(chain) FROM tokens
    UNION ALL
    SELECT (SELECT min(chain) FROM tokens WHERE tokens.chain > known.chain) FROM known WHERE known.chain IS NOT NULL
)
SELECT chain FROM known WHERE chain IS NOT NULL
"""
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


def read_tokens(catalog: sqlite3.Connection, keys: Sequence[Key]) -> dict[Key, TokenInfo]:
    """Return the stored metadata of tokens by chain and address. Tokens without stored metadata are left out."""
    tokens = map(token_info, catalog.execute(_READ, (json.dumps(list(keys)),)))
    return {(token.chain, token.address): token for token in tokens}


def read_chains(catalog: sqlite3.Connection) -> list[str]:
    """Return the chains of all tokens, sorted."""
    return [chain for (chain,) in catalog.execute(_CHAINS)]


def token_info(row: Sequence[Any]) -> TokenInfo:
    """Make a ``TokenInfo`` from a row of the table ``tokens`` with the columns ``INFO_COLUMNS``."""
    chain, address, name, symbol, decimals, standard, is_indexed, img_url, unsupported, assumed = row
    info = (chain, address, name, symbol, decimals, standard, bool(is_indexed), img_url, unsupported)
    return TokenInfo(*info, is_assumed=bool(assumed))


def save_tokens(catalog: sqlite3.Connection, tokens: Iterable[TokenInfo]) -> bool:
    """Store the metadata of tokens, and mark those with ``is_indexed`` as indexed.

    If ``tokens`` has a token more than once, its last entry is stored. Return True if stored data changed.
    """
    token_of = {(token.chain, token.address): token for token in tokens}
    changed = execute_all(catalog, _SAVE, [_row(token) for token in token_of.values()])
    if changed:
        save_words(catalog, [(*key, token.name) for key, token in token_of.items()])
    marked = [key for key, token in token_of.items() if token.is_indexed]
    return indexed_tokens.mark(catalog, marked, indexed_tokens.LISTED, True) or changed


def assume_token(catalog: sqlite3.Connection, chain: str, address: str, standard: str) -> bool:
    """Store assumed metadata, for example 18 decimals for ERC-20, for a token without imported metadata.

    Decimals that were assumed earlier for another token standard are replaced. Return True if stored data changed.
    """
    token = _assumed(chain, address, standard)
    is_new = execute_all(catalog, _ASSUME, [_row(token)])
    if is_new:
        save_words(catalog, [(chain, address, token.name)])
        indexed_tokens.refresh_new(catalog, chain, address)
    return is_new


def _assumed(chain: str, address: str, standard: str) -> TokenInfo:
    """Return assumed metadata: 18 decimals for ERC-20, 0 for NFTs, the chain's decimals for its own coin."""
    known_chain = KNOWN_CHAINS.get(chain)
    name, symbol, decimals = address, address[:8], 18 if standard == "erc20" else 0
    if address == NATIVE:
        name = known_chain.name if known_chain else chain
        symbol, decimals = (
            (known_chain.native_symbol, known_chain.native_decimals) if known_chain else (chain.upper(), 18)
        )
    return TokenInfo(chain, address, name, symbol, decimals, standard, is_assumed=True)


def _row(token: TokenInfo) -> tuple[Any, ...]:
    is_indexed = False  # the marks of indexed tokens decide
    info = (token.chain, token.address, token.name, token.symbol, token.decimals, token.standard, is_indexed)
    return (*info, token.img_url, token.unsupported, token.is_assumed, folded(token.symbol), folded(token.name))


def save_words(catalog: sqlite3.Connection, names: Collection[tuple[str, str, str]]) -> None:
    """Replace the search words of stored tokens. ``names`` has chain, address and name of each token."""
    catalog.executemany("DELETE FROM words WHERE chain = ? AND address = ?", [(row[0], row[1]) for row in names])
    catalog.executemany(
        "INSERT INTO words SELECT is_indexed, ?, chain, address FROM tokens WHERE chain = ? AND address = ?",
        ((word, chain, address) for chain, address, name in names for word in words_of(name)),
    )


def folded(text: str) -> str:
    """Return the text in the form that searches compare: NFKC-normalised, case-folded and stripped."""
    return unicodedata.normalize("NFKC", text).casefold().strip()


def words_of(name: str) -> set[str]:
    """Return the folded words of a token's name. ``MoonCats`` has the words mooncats, moon and cats."""
    return {word for text in (name, _CAMEL.sub(" ", name)) for word in WORD.findall(folded(text))}


def execute_all(catalog: sqlite3.Connection, sql: str, rows: Iterable[tuple[Any, ...]]) -> bool:
    """Execute a statement once for each row of parameters. Return whether any row of the database changed."""
    changes_before = catalog.total_changes
    catalog.executemany(sql, rows)
    return catalog.total_changes > changes_before


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
