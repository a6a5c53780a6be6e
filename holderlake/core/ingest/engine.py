"""The protocol of an engine in this process, which computes many answers at once, without HTTP or JSON.

``holderlake.engine.direct`` implements it. A ``Workspace`` is given the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa

from holderlake.core.contract.requests import HoldersOptions, MapOptions
from holderlake.core.provider.errors import NoAnswer


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


class DirectEngine(Protocol):
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
