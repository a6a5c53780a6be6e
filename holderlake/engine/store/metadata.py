"""Tokens, labels and marks of indexed tokens in a store. Only the store's catalogue has them.

Rules are in ``catalog.rules``, transfers and their arrays in ``store``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from holderlake.engine.catalog import catalog as catalogue
from holderlake.engine.catalog import indexed_tokens, labels, tokens
from holderlake.engine.catalog.changelog import EVERY_PAST, ChangeLog, note_change
from holderlake.engine.catalog.labels import AddressLabel
from holderlake.engine.catalog.tokens import search
from holderlake.engine.records import Key, Label, TokenInfo

T = TypeVar("T")
P = ParamSpec("P")

_MOST_TOKENS: Final = 100_000
"""The most tokens whose metadata is kept in memory."""


class Metadata:
    """Reads and writes metadata of the store in ``root``. Each method is one transaction of the catalogue.

    ``changes`` is the change log.
    """

    def __init__(self, root: Path, changes: ChangeLog) -> None:
        self.root = root
        self._changes = changes
        self._cached: dict[str, tuple[object, Any]] = {}

    def _catalog(self) -> AbstractContextManager[sqlite3.Connection]:
        return catalogue.transaction(self.root)

    def add_tokens(self, infos: Iterable[TokenInfo]) -> int:
        """Store metadata of tokens. It replaces older metadata of the same tokens. Return the number of ``infos``."""
        listed = list(infos)
        self._write(lambda catalog: tokens.save_tokens(catalog, listed))
        return len(listed)

    def add_decimals(self, decimals: Mapping[Key, int]) -> None:
        """Store the decimals of tokens, by chain and address, where they were only assumed until now."""
        assumed = [token for token in self.tokens(list(decimals)).values() if token.has_assumed_decimals]
        if assumed:
            self.add_tokens(
                replace(token, decimals=decimals[token.chain, token.address], is_assumed=False, is_indexed=False)
                for token in assumed
            )

    def index_tokens(self, keys: Iterable[Key], source: str, is_indexed: bool = True) -> None:
        """Mark tokens as indexed or not indexed. ``source`` is one of ``indexed_tokens.SOURCES``.

        The tokens need not have transfers yet.
        """
        self._write(lambda catalog: indexed_tokens.mark(catalog, keys, source, is_indexed))

    def add_labels(self, new_labels: Iterable[Label]) -> int:
        """Store labels. Those of an address, chain and source replace all earlier ones. Return the number of given
        labels."""
        listed = list(new_labels)
        self._write(lambda catalog: labels.save_labels(catalog, listed))
        return len(listed)

    def _write(self, save: Callable[[sqlite3.Connection], bool]) -> None:
        """Call ``save`` in a transaction, and record a change if it returns True."""
        with self._catalog() as catalog:
            catalog.execute("BEGIN IMMEDIATE")
            if save(catalog):
                note_change(catalog, EVERY_PAST)

    def read(self, query: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a function of the package ``catalog`` that reads the catalogue."""
        with self._catalog() as catalog:
            return query(catalog, *args, **kwargs)

    def metadata_generation(self) -> int:
        """Return the number of the latest change (the generation) that the returned metadata include."""
        return self._changes.generation()

    def cached(self, name: str, key: object, compute: Callable[[], T]) -> T:
        """Return the result of ``compute``, cached under ``name``. Compute it again if ``key`` differs from that of the
        cached result."""
        entry = self._cached.get(name)
        if entry is None or entry[0] != key:
            entry = self._cached[name] = key, compute()
        value: T = entry[1]
        return value

    def token(self, chain: str, token_address: str) -> TokenInfo | None:
        """Return a token's metadata, imported or assumed; None if the store has neither."""
        return self.tokens([(chain, token_address)]).get((chain, token_address))

    def tokens(self, keys: Sequence[Key]) -> dict[Key, TokenInfo]:
        """Return the stored metadata of tokens, by chain and address. Tokens without metadata are left out."""
        cache: dict[Key, TokenInfo] = self.cached("tokens", self.metadata_generation(), dict)
        stored_tokens = {key: cache[key] for key in keys if key in cache}
        missing = [key for key in keys if key not in stored_tokens]
        if missing:
            read = self.read(tokens.read_tokens, missing)
            if len(cache) < _MOST_TOKENS:
                cache.update(read)
            stored_tokens |= read
        return stored_tokens

    def indexed_tokens(self) -> list[Key]:
        """Return the tokens whose transfers count on every map, sorted by chain and address."""
        read = partial(self.read, indexed_tokens.indexed_keys)
        return self.cached("indexed tokens", self.metadata_generation(), read)

    def search(self, text: str, limit: int) -> list[TokenInfo]:
        """Return at most ``limit`` tokens that match an address, symbol or name, the best first
        (``catalog.search``)."""
        return self.read(search, text, limit)

    def labels(
        self, addresses: Sequence[str], chain: str | None = None, at: int | None = None
    ) -> dict[str, AddressLabel]:
        """Return the merged label of each address that has labels on a chain, by address (see ``merged_labels``).

        ``at`` is a unix second of ``label_time``; None means the last labels of each source.
        """
        return self.read(labels.merged_labels, addresses, chain, at)

    def period_starts(self) -> list[int]:
        """Return the unix seconds at which a label begins or no longer counts, ascending."""
        read = partial(self.read, labels.period_starts)
        return self.cached("periods of labels", self.metadata_generation(), read)
