"""Metadata of tokens in the catalogue, and the search by address, symbol or name."""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Any, Final

from holderlake.core.contract.chains import KNOWN_CHAINS, NATIVE, normalise_address
from holderlake.engine.catalog import indexed_tokens
from holderlake.engine.records import Key, TokenInfo

INFO_COLUMNS: Final = "chain, address, name, symbol, decimals, standard, is_indexed, img_url, unsupported, assumed"
"""The columns that ``token_info`` reads."""
_IS_INDEXED: Final = INFO_COLUMNS.split(", ").index("is_indexed")
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
_CANDIDATES: Final = f"SELECT {INFO_COLUMNS}, folded_symbol, folded_name FROM tokens WHERE"
_BEGINS: Final = "address = :address OR instr(folded_symbol, :text) = 1 OR instr(folded_name, :text) = 1"
_HAS_WORD: Final = "instr(folded_name, :word)"
_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
"""Half of a UTF-16 surrogate pair. No token's text contains one, and SQLite refuses it."""


def read_tokens(catalog: sqlite3.Connection, keys: Sequence[Key]) -> dict[Key, TokenInfo]:
    """Return the stored metadata of tokens by chain and address. Tokens without stored metadata are left out."""
    tokens = map(token_info, catalog.execute(_READ, (json.dumps(list(keys)),)))
    return {(token.chain, token.address): token for token in tokens}


def read_chains(catalog: sqlite3.Connection) -> list[str]:
    """Return the chains of all tokens, sorted."""
    return [chain for (chain,) in catalog.execute("SELECT DISTINCT chain FROM tokens ORDER BY 1")]


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
    marked = [key for key, token in token_of.items() if token.is_indexed]
    return indexed_tokens.mark(catalog, marked, indexed_tokens.LISTED, True) or changed


def assume_token(catalog: sqlite3.Connection, chain: str, address: str, standard: str) -> bool:
    """Store assumed metadata, for example 18 decimals for ERC-20, for a token without imported metadata.

    Decimals that were assumed earlier for another token standard are replaced. Return True if stored data changed.
    """
    token = _assumed(chain, address, standard)
    is_new = execute_all(catalog, _ASSUME, [_row(token)])
    if is_new:
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
    words = sorted(set(begins.split()), key=lambda word: (-len(word), word))  # long words are usually rare
    bound = {"address": normalise_address(text), "text": begins, "word": words[0]}
    ranked_rows: dict[Key, tuple[tuple[Any, ...], Sequence[Any]]] = {}
    for condition in (_BEGINS, _HAS_WORD):
        for row in catalog.execute(f"{_CANDIDATES} {condition}", bound) if len(ranked_rows) < limit else ():
            rank = _rank(row, bound["address"], begins, words)
            if rank:
                ranked_rows[row[:2]] = rank, row
    return [token_info(row[:-2]) for _, row in nsmallest(limit, ranked_rows.values())]


def _rank(row: Sequence[Any], address: str, text: str, words: Sequence[str]) -> tuple[Any, ...] | None:
    """Return a tuple by which a token is sorted, which begins with the number of the search step that finds it.

    None if no step does. ``row`` is a row of ``_CANDIDATES``, ``words`` are the words of ``text``, the longest first.
    """
    chain, address_found, listed_name, *_, symbol, name = row
    order = (not row[_IS_INDEXED], chain, address_found)
    for step, is_found in enumerate((address_found == address, symbol == text, name == text)):
        if is_found:
            return (step, *order)
    for place, beginning in enumerate((symbol, name)):
        if beginning.startswith(text):
            return (3, order[0], place, beginning, *order[1:])
    if not all(map(WORD.fullmatch, words)):  # a character that no word of a name contains
        return None
    name_words = words_of(listed_name)
    if not all(any(word_of_name.startswith(word) for word_of_name in name_words) for word in words):
        return None
    return (
        4,
        order[0],
        min(word_of_name for word_of_name in name_words if word_of_name.startswith(words[0])),
        *order[1:],
    )
