"""The Dagster assets of the pipeline: a module for each family of tables that is fetched together.

A family's module has everything about it, from top to bottom: its subjects, the requests with their options, the
function that decodes the answers, and the asset with its dependencies, partitions, pool and checks. ``fetched``
materialises the partitions of any family, ``checks`` and ``freshness`` have the asset checks, ``warehouse`` loads
DuckDB. Jobs, schedules and sensors are in ``pipelines``.
"""

from typing import Final

from holderlake.assets.addresses import ADDRESSES
from holderlake.assets.chains import CHAINS
from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.assets.subgraphs import SUBGRAPHS
from holderlake.assets.tokens import TOKENS
from holderlake.core.ingest.stream import Stream

STREAMS: Final[tuple[Stream, ...]] = (CHAINS, TOKENS, HOLDERS, MAPS, SUBGRAPHS, ADDRESSES)
"""All families, in the order in which a partition is filled: ``addresses`` requests the top holders in ``holders``."""
