"""Metrics of a home for Prometheus, and log lines of runs as JSON.

For the service see ``service/observability``. Metrics of Dagster's runs are in ``holderlake/cli/metrics.py``.
"""

from holderlake.operations.monitoring.prometheus import HomeMetrics, all_metrics, write_textfile

__all__ = ["HomeMetrics", "all_metrics", "write_textfile"]
