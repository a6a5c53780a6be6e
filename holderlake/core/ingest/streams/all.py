"""All streams, in the order in which a partition is filled."""

from __future__ import annotations

from typing import Final

from holderlake.core.ingest.stream import Stream
from holderlake.core.ingest.streams.addresses import ADDRESSES
from holderlake.core.ingest.streams.chains import CHAINS
from holderlake.core.ingest.streams.holders import HOLDERS
from holderlake.core.ingest.streams.maps import MAPS
from holderlake.core.ingest.streams.subgraphs import SUBGRAPHS
from holderlake.core.ingest.streams.tokens import TOKENS

STREAMS: Final[tuple[Stream, ...]] = (CHAINS, TOKENS, HOLDERS, MAPS, SUBGRAPHS, ADDRESSES)
"""The order matters: plots need the names in ``tokens``, and ``addresses`` requests the top holders in ``holders``."""
