"""Tags of Dagster's runs: what a run says to the sensors, to later runs and to the commands."""

from __future__ import annotations

from typing import Final

from dagster import MAX_RUNTIME_SECONDS_TAG

PARTITION_TAG: Final = "dagster/partition"
RANGE_TAGS: Final = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
"""The first and the last key of a run's range of partitions."""
LIMITS: Final = {MAX_RUNTIME_SECONDS_TAG: "86400"}
"""Tags of a run of one day: Dagster's run monitoring ends it after 24 hours."""
ERROR_TAG: Final = "holderlake/error"
"""The code of the run's last error, such as ``credits_exhausted`` or ``unreachable``."""
ENDPOINT_TAG: Final = "holderlake/endpoint"
"""The endpoint that the provider refuses to the API key, such as ``map``."""
REPETITION_TAG: Final = "holderlake/repetition"
"""Set by the sensor ``healing``, which launched the run: the planned cost in hundredths of a credit."""
PROCESS_TAG: Final = "holderlake/process"
"""The host and the path of the lock file of the run's process, as ``host:path``."""
LACKS_TAG: Final = "holderlake/lacks/"
"""The number of the run's days that lack a part of a stream; the stream's name follows."""
FAILED_REQUESTS_TAG: Final = "holderlake/failed_requests/"
"""The number of the run's failed requests of a stream; the stream's name follows."""
LOADS_TAG: Final = "holderlake/loads"
"""A JSON list of chains: the run loads the warehouse, and searches for alerts, once for all of them.

A run with an empty list leaves both to the last run of its command. A run without the tag does both for itself.
"""
