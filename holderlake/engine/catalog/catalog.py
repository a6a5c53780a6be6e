"""The store's catalogue, a small SQLite file: how it is opened, made, brought up to date and written to.

What the histories hold is the store's work, finding tokens is that of ``search``, merging labels that of ``labels``.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from holderlake.contract.chains import NATIVE
from holderlake.engine.catalog import catalog_copy, indexed_tokens
from holderlake.engine.catalog.catalog_copy import CATALOG
from holderlake.engine.catalog.changelog import EVERY_PAST, note_change
from holderlake.engine.errors import BadSource, DamagedCatalog, UnusableStore
from holderlake.engine.files.disk_errors import REBUILD, sqlite_failures
from holderlake.engine.records import Label, TokenInfo

_log = logging.getLogger(__name__)

FORMAT: Final = "2"
_FIRST_FORMAT: Final = "1"
_VERSION: Final = 6
"""Counts what was added to the catalogue since its first release (``PRAGMA user_version``); older ones are brought
up to date when they are opened."""

_SCHEMA: Final = files("holderlake.engine.catalog").joinpath("catalog.sql").read_text()

_ADD_FOLDED_TEXTS: Final = """
ALTER TABLE tokens ADD COLUMN folded_symbol TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN folded_name TEXT NOT NULL DEFAULT '';
UPDATE tokens SET folded_symbol = folded(symbol), folded_name = folded(name);
DROP INDEX IF EXISTS tokens_by_symbol;
DROP INDEX IF EXISTS tokens_by_name;
"""

INFO_COLUMNS: Final = "chain, address, name, symbol, decimals, standard, is_indexed, img_url, unsupported"
"""The columns that ``token_info`` reads."""

_TOKEN_ROW: Final = f"""
INSERT INTO tokens ({INFO_COLUMNS}, assumed, folded_symbol, folded_name)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

_SAVE_TOKEN: Final = f"""
{_TOKEN_ROW}
ON CONFLICT (chain, address) DO UPDATE SET
    name = excluded.name,
    symbol = excluded.symbol,
    decimals = excluded.decimals,
    standard = excluded.standard,
    img_url = excluded.img_url,
    unsupported = excluded.unsupported,
    assumed = excluded.assumed,
    folded_symbol = excluded.folded_symbol,
    folded_name = excluded.folded_name
WHERE (name, symbol, decimals, standard, img_url, unsupported, assumed) IS NOT (
    excluded.name, excluded.symbol, excluded.decimals, excluded.standard, excluded.img_url, excluded.unsupported,
    excluded.assumed
)
"""

_ASSUME_TOKEN: Final = f"""
{_TOKEN_ROW}
-- opening balances may have come before transfers, which know the standard
ON CONFLICT (chain, address) DO UPDATE SET decimals = excluded.decimals, standard = excluded.standard
WHERE assumed AND standard <> excluded.standard
"""

_SAVE_LABEL: Final = """
INSERT INTO labels (
    address, chain, source, name, entity_id, is_cex, is_dex, is_contract, is_paid_label, precedence
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (address, chain, source) DO UPDATE SET
    name = excluded.name,
    entity_id = excluded.entity_id,
    is_cex = excluded.is_cex,
    is_dex = excluded.is_dex,
    is_contract = excluded.is_contract,
    is_paid_label = excluded.is_paid_label,
    precedence = excluded.precedence
WHERE (name, entity_id, is_cex, is_dex, is_contract, is_paid_label, precedence) IS NOT (
    excluded.name, excluded.entity_id, excluded.is_cex, excluded.is_dex, excluded.is_contract,
    excluded.is_paid_label, excluded.precedence
)
"""


_BUSY_SECONDS: Final = 60.0


def connect(root: Path) -> sqlite3.Connection:
    """Connect to the catalogue of the store in ``root``; any thread may use the connection, one at a time.

    Raises ``DamagedCatalog`` where it is lost: missing or empty beside files of transfers.
    """
    if not _exists(root) and next(raw_files(root), None):
        raise DamagedCatalog(
            f"{root / CATALOG} is missing or empty although {root} holds files of transfers; "
            f"{REBUILD} to restore it from its copy or the files"
        )
    return _connected(root)


def make(root: Path) -> None:
    """Make a catalogue that lists nothing, to be filled from the files of transfers."""
    with closing(_connected(root)) as catalog, sqlite_failures(root / CATALOG), _counted(catalog, root):
        catalog.execute("BEGIN IMMEDIATE")
        _make_tables(catalog)
    catalog_copy.trust(root)


def _connected(root: Path) -> sqlite3.Connection:
    with sqlite_failures(root / CATALOG):
        connection = sqlite3.connect(root / CATALOG, timeout=_BUSY_SECONDS, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
    return connection


def _exists(root: Path) -> bool:
    """Whether there is a catalogue; SQLite itself makes an empty one where there is none."""
    try:
        return os.stat(f"{root}/{CATALOG}").st_size > 0  # noqa: PTH116 - for each connection, and a Path costs more
    except OSError:
        return False


def raw_files(root: Path) -> Iterator[Path]:
    """The Parquet files of transfers and opening balances in a store's folder, listed or not."""
    for folder in ("transfers", "openings"):
        for path in sorted((root / folder).glob("*.parquet")):
            if path.name != EMPTY and not path.name.startswith("."):
                yield path


EMPTY: Final = "none.parquet"
"""A file of no transfers, for queries over a store that has none."""


@contextmanager
def opened(root: Path) -> Iterator[sqlite3.Connection]:
    """A connection for the block; what it wrote is there whole when the block ends, and not at all when it fails."""
    connection = connect(root)
    before = connection.total_changes
    try:
        with sqlite_failures(root / CATALOG):
            catalog_copy.check(connection, root)
            with _counted(connection, root):
                yield connection
    finally:
        wrote = connection.total_changes > before
        connection.close()
        if wrote:
            catalog_copy.trust(root)


@contextmanager
def _counted(connection: sqlite3.Connection, root: Path) -> Iterator[None]:
    """A transaction; when it wrote something, the write gets a number, and the catalogue's copy follows."""
    before = connection.total_changes
    with connection:
        yield
        wrote = connection.total_changes > before
        if wrote:
            catalog_copy.count_write(connection)
    if wrote:
        try:
            catalog_copy.save_copy(connection, root)
        except UnusableStore as error:
            _log.warning("%s; what was written is stored, and the next write makes the catalogue's copy", error)


TakeOver = Callable[[sqlite3.Connection, Sequence[tuple[str, str, str]]], None]
"""Makes the arrays of histories of format 1: chain, address and Parquet file of each."""


def prepare(catalog: sqlite3.Connection, root: Path, take_over: TakeOver) -> None:
    """Makes the catalogue's tables, or brings those of an earlier version up to date, in one transaction.

    One that is up to date is only read, so opening a store does not wait for an import. Raises ``BadSource`` when the
    store is of another format; it is left as it is.
    """
    with sqlite_failures(root / CATALOG):
        if _version(catalog) < _VERSION:
            with _counted(catalog, root):
                catalog.execute("BEGIN IMMEDIATE")
                if _version(catalog) < _VERSION:  # else another process was quicker
                    _bring_up_to_date(catalog, root, take_over)
        _refuse_other_format(catalog, root)
        catalog_copy.check(catalog, root)


def _bring_up_to_date(catalog: sqlite3.Connection, root: Path, take_over: TakeOver) -> None:
    columns = {row[1] for row in catalog.execute("PRAGMA table_info(tokens)")}
    histories: list[tuple[str, str, str]] = []
    if not columns and next(raw_files(root), None):
        raise DamagedCatalog(f"{root / CATALOG} lists nothing although {root} holds files of transfers; {REBUILD}")
    if columns and _refuse_other_format(catalog, root, {_FIRST_FORMAT, FORMAT}) == _FIRST_FORMAT:
        histories = catalog.execute("SELECT chain, token_address, file FROM histories ORDER BY 1, 2").fetchall()
        catalog.execute("DROP TABLE histories")
    if columns and "folded_symbol" not in columns:
        catalog.create_function("folded", 1, folded, deterministic=True)
        _run(catalog, _ADD_FOLDED_TEXTS)
    of_files = {row[1] for row in catalog.execute("PRAGMA table_info(files)")}
    if of_files and "signature" not in of_files:
        catalog.execute("ALTER TABLE files ADD COLUMN signature TEXT")
    _make_tables(catalog)
    if columns:
        _save_words(catalog, catalog.execute("SELECT chain, address, name FROM tokens").fetchall())
        _add_marks(catalog, root)
    if histories:
        take_over(catalog, histories)


def _make_tables(catalog: sqlite3.Connection) -> None:
    _run(catalog, _SCHEMA)
    catalog.execute("INSERT OR REPLACE INTO settings VALUES ('format', ?)", (FORMAT,))
    catalog.execute(f"PRAGMA user_version = {_VERSION}")


def _add_marks(catalog: sqlite3.Connection, root: Path) -> None:
    """Mark the tokens of a store from before marks: indexed ones, and those that an import from a node named."""
    if catalog.execute("SELECT EXISTS (SELECT 1 FROM index_marks)").fetchone() == (1,):
        return
    known = catalog.execute("SELECT chain, address FROM tokens WHERE is_indexed = 1").fetchall()
    indexed_tokens.mark(catalog, known, indexed_tokens.LISTED, True)
    if indexed_tokens.mark(catalog, _named_to_nodes(root), indexed_tokens.IMPORT, True):
        note_change(catalog, EVERY_PAST)


def _named_to_nodes(root: Path) -> list[tuple[str, str]]:
    """The tokens that were read from nodes one by one, as their checkpoints have them."""
    path = root / "nodes.sqlite"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as nodes, suppress(sqlite3.DatabaseError):
        scopes = nodes.execute("SELECT DISTINCT chain, scope FROM covered WHERE scope <> '*'").fetchall()
        return sorted({(chain, NATIVE if scope == "internal" else scope) for chain, scope in scopes})
    return []


def _version(catalog: sqlite3.Connection) -> int:
    (version,) = catalog.execute("PRAGMA user_version").fetchone()
    return int(version)


def _refuse_other_format(catalog: sqlite3.Connection, root: Path, known: Collection[str] = (FORMAT,)) -> str:
    """Return the store's format. Raise ``BadSource`` where it is not among the known ones."""
    (found,) = catalog.execute("SELECT value FROM settings WHERE name = 'format'").fetchone()
    if found not in known:
        raise BadSource(f"{root} holds a store of format {found}; this version reads format {FORMAT}")
    return str(found)


def _run(catalog: sqlite3.Connection, script: str) -> None:
    """Runs each statement of the script in the open transaction, which ``executescript`` would commit."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            catalog.execute(statement)
            statement = ""


def folded(text: str) -> str:
    """Text as a search compares it: without difference of case, width or compatibility forms, nor blanks around it."""
    return unicodedata.normalize("NFKC", text).casefold().strip()


_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
WORD: Final = re.compile(r"\w+")
"""A word of a name, between blanks and punctuation."""


def words_of(name: str) -> set[str]:
    """The words of a token's name as a search compares them; ``MoonCats`` has the words mooncats, moon and cats."""
    return {word for text in (name, _CAMEL.sub(" ", name)) for word in WORD.findall(folded(text))}


def token_info(row: Sequence[Any]) -> TokenInfo:
    """A token of its ``INFO_COLUMNS``."""
    chain, address, name, symbol, decimals, standard, is_indexed, img_url, unsupported = row
    return TokenInfo(chain, address, name, symbol, decimals, standard, bool(is_indexed), img_url, unsupported)


def save_tokens(catalog: sqlite3.Connection, tokens: Iterable[TokenInfo]) -> bool:
    """Store metadata, the last of each token, and mark those that are indexed. Return whether anything changed."""
    last = {(token.chain, token.address): token for token in tokens}
    changed = _changed(catalog, _SAVE_TOKEN, [_token_row(token, assumed=False) for token in last.values()])
    if changed:
        _save_words(catalog, [(*key, token.name) for key, token in last.items()])
    marked = [key for key, token in last.items() if token.is_indexed]
    return indexed_tokens.mark(catalog, marked, indexed_tokens.LISTED, True) or changed


def assume_token(catalog: sqlite3.Connection, token: TokenInfo) -> bool:
    """Store assumed metadata of a token that has none, or has assumed ones of another standard. Return whether so."""
    is_new = _changed(catalog, _ASSUME_TOKEN, [_token_row(token, assumed=True)])
    if is_new:
        _save_words(catalog, [(token.chain, token.address, token.name)])
        indexed_tokens.refresh_new(catalog, token.chain, token.address)
    return is_new


def _save_words(catalog: sqlite3.Connection, named: Collection[tuple[str, str, str]]) -> None:
    """Replaces the words of stored tokens, given by chain, address and name."""
    catalog.executemany("DELETE FROM words WHERE chain = ? AND address = ?", [(one[0], one[1]) for one in named])
    catalog.executemany(
        "INSERT INTO words SELECT is_indexed, ?, chain, address FROM tokens WHERE chain = ? AND address = ?",
        ((word, chain, address) for chain, address, name in named for word in words_of(name)),
    )


def save_labels(catalog: sqlite3.Connection, labels: Iterable[Label]) -> bool:
    """Stores labels; of one that stands twice the last is taken. Tells whether anything is other than it was."""
    rows = {(label.address, label.chain or "", label.source): _label_row(label) for label in labels}
    return _changed(catalog, _SAVE_LABEL, rows.values())


def _changed(catalog: sqlite3.Connection, sql: str, rows: Iterable[tuple[Any, ...]]) -> bool:
    before = catalog.total_changes
    catalog.executemany(sql, rows)
    return catalog.total_changes > before


def _token_row(token: TokenInfo, assumed: bool) -> tuple[Any, ...]:
    return (
        token.chain,
        token.address,
        token.name,
        token.symbol,
        token.decimals,
        token.standard,
        False,  # until the marks are looked at
        token.img_url,
        token.unsupported,
        assumed,
        folded(token.symbol),
        folded(token.name),
    )


def _label_row(label: Label) -> tuple[Any, ...]:
    return (
        label.address,
        label.chain or "",
        label.source,
        label.name,
        label.entity_id,
        label.is_cex,
        label.is_dex,
        label.is_contract,
        label.is_paid_label,
        label.precedence,
    )
