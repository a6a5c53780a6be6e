"""The Dagster assets of the pipeline: a module for each family of tables that is fetched together.

A family's module has everything about it, from top to bottom: its subjects, the requests with their options, the
function that decodes the answers, and the asset with its dependencies, partitions, pool and checks. ``fetched``
materialises the partitions of any family, ``checks`` and ``freshness`` have the asset checks, ``warehouse`` loads
DuckDB. Jobs, schedules and sensors are in ``pipelines``.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from holderlake.core.contract.tables import FAMILY_TABLES
from holderlake.core.ingest.stream import Stream


def _declared() -> dict[str, Stream]:
    """Return the families that the modules of this folder declare, by name."""
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    declared = (value for module in modules for value in vars(module).values() if isinstance(value, Stream))
    return {stream.name: stream for stream in declared}


STREAMS: Final[tuple[Stream, ...]] = tuple(
    sorted(_declared().values(), key=lambda stream: list(FAMILY_TABLES).index(stream.name))
)
"""All families, in the order of ``contract.tables``, in which a partition is filled: ``addresses`` requests the top
holders in ``holders``."""
