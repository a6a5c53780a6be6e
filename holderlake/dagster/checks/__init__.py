"""Asset checks: rules and row counts of a run's partitions, freshness and completeness of each chain, alert rules.

Checks only report. Repairs are in ``holderlake.maintenance`` and ``holderlake.dagster.healing``.
"""

from holderlake.dagster.checks.freshness import freshness_checks
from holderlake.dagster.checks.streams import RULES, evaluate, files_with_wrong_counts, rows_that_break, stream_checks

__all__ = ["RULES", "evaluate", "files_with_wrong_counts", "freshness_checks", "rows_that_break", "stream_checks"]
