"""Asset checks: odd rows and row counts of a run's partitions, freshness and completeness of each chain, alert rules.

Checks only report. Repairs are in ``holderlake.operations.maintenance`` and ``holderlake.dagster.healing``.
"""

from holderlake.dagster.checks.freshness import freshness_checks
from holderlake.dagster.checks.streams import evaluate, files_with_wrong_counts, odd_rows, stream_checks

__all__ = ["evaluate", "files_with_wrong_counts", "freshness_checks", "odd_rows", "stream_checks"]
