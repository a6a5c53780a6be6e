"""Protocol of an engine in this process, which computes many answers at once without HTTP or JSON.

The implementation is ``holderlake.local.engine``; a workspace gets it from outside, as it gets its ``Endpoint``.
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
    """The lake's tables of many tokens and instants by name, without ``fetched_at``, and the answers that are missing.

    The rows of a token at an instant equal those of a single answer, in its order. ``endpoint`` is the HTTP endpoint of
    these answers; ``computed_at`` is naive UTC.
    """

    endpoint: str
    tables: Mapping[str, pa.Table]
    refused: Sequence[MissingAnswer]
    computed_at: datetime


class Engine(Protocol):
    """An engine in this process. It raises only faults of itself or its store; ``refused`` has missing answers.

    ``options.timestamp`` is ignored: each answer is as of one of the instants.
    """

    @property
    def provider_id(self) -> str:
        """The provider whose answers these are."""

    @property
    def rules(self) -> Mapping[str, Any]:
        """The rules that all maps follow, as plain data; equal to the body of ``GET /v0/x/rules``."""

    def maps(self, chain: str, tokens: Sequence[str], instants: Sequence[datetime], options: MapOptions) -> BulkResult:
        """Return the five tables of maps of every token at every instant."""

    def holders(
        self, chain: str, tokens: Sequence[str], instants: Sequence[datetime], options: HoldersOptions
    ) -> BulkResult:
        """Return the table ``holders`` of every token at every instant."""
