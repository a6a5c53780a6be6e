"""Protocols of parts in this process: an engine, and the import of a day of a chain's transfers from its nodes.

The engine computes many answers at once, without HTTP or JSON. The implementations are in ``holderlake.local``. A
``Workspace`` is given them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa

from holderlake.contract.requests import HoldersOptions, MapOptions
from holderlake.provider.errors import NoAnswer


@dataclass(frozen=True)
class MissingAnswer:
    """A token without an answer at an instant, and the error that an HTTP request would raise."""

    token_address: str
    as_of: datetime
    error: NoAnswer


@dataclass(frozen=True)
class BulkResult:
    """The rows of many tokens and instants: the lake's tables by name, without the column ``fetched_at``.

    The rows of a token at an instant equal, in content and order, those of its HTTP answer from ``endpoint``.
    ``refused`` are tokens and instants without an answer; ``computed_at`` is naive UTC.
    """

    endpoint: str
    tables: Mapping[str, pa.Table]
    refused: Sequence[MissingAnswer]
    computed_at: datetime


class Engine(Protocol):
    """An engine in this process. ``chain`` and ``tokens`` (addresses) name the tokens, ``instants`` are naive UTC.

    A token without an answer is in ``BulkResult.refused``; only faults of the engine or its store raise exceptions.
    ``options.timestamp`` is ignored: each answer is as of one of the instants.
    """

    @property
    def provider_id(self) -> str:
        """The provider's name in archive and lake."""

    @property
    def rules(self) -> Mapping[str, Any]:
        """The thresholds that all maps follow, as plain data; equal to the JSON of ``GET /v0/x/rules``."""

    def maps(self, chain: str, tokens: Sequence[str], instants: Sequence[datetime], options: MapOptions) -> BulkResult:
        """Return the maps of every token at every instant, in the five tables of the family ``maps``."""

    def holders(
        self, chain: str, tokens: Sequence[str], instants: Sequence[datetime], options: HoldersOptions
    ) -> BulkResult:
        """Return the holders of every token at every instant, in the table ``holders``."""


class StoreChanges(Protocol):
    """The numbered changes of the user's own store."""

    def generation(self) -> int:
        """Return the number of the latest change."""

    def first_change_since(self, generation: int) -> int | None:
        """Return the earliest unix second as of which answers changed after a change; None if nothing changed."""


@dataclass(frozen=True)
class DayReport:
    """Report about the import of one chain and day. The store has blocks ``first_block`` to ``last_block``;
    ``is_whole`` is True if these are all blocks of the day. ``blocks``, ``logs`` and ``rows`` count what this import
    added, ``requests`` its calls to nodes, ``removed`` the rows of blocks that a chain reorganisation replaced."""

    first_block: int
    last_block: int
    is_whole: bool
    blocks: int
    logs: int
    rows: int
    removed: int
    requests: int
    seconds: float
