"""An engine at hand: the provider's own engine in this process, asked for many answers at once without HTTP or JSON.

Which engine that is, and over which store, is told from outside, as with ``workspace.Endpoint``.
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
class Refused:
    """A token that has no answer at an instant, and why: the error that asking over HTTP would have raised."""

    token_address: str
    as_of: datetime
    error: NoAnswer


@dataclass(frozen=True)
class Swept:
    """What one pass over tokens and instants told: the lake's tables by name, without ``fetched_at``.

    The rows of a token at an instant are those of a single answer, in its order. ``endpoint`` is where they would have
    been asked for, ``computed_at`` naive UTC.
    """

    endpoint: str
    tables: Mapping[str, pa.Table]
    refused: Sequence[Refused]
    computed_at: datetime


class Engine(Protocol):
    """An engine at hand. All that it raises is a fault of the engine or its store; what it has no answer for it tells.

    ``options.timestamp`` does not matter here: every answer is as of one of the instants.
    """

    @property
    def provider_id(self) -> str:
        """The provider whose answers these are."""

    @property
    def rules(self) -> Mapping[str, Any]:
        """The rules that all maps follow, as plain data; the same as the body of ``GET /v0/x/rules``."""

    def maps(self, chain: str, tokens: Sequence[str], instants: Sequence[datetime], options: MapOptions) -> Swept:
        """The five tables of maps of every token at every instant."""

    def holders(
        self, chain: str, tokens: Sequence[str], instants: Sequence[datetime], options: HoldersOptions
    ) -> Swept:
        """The table ``holders`` of every token at every instant."""
