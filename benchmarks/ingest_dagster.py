"""The floor of ``benchmarks.ingest`` as a Dagster run: its history is Dagster's own, in SQLite files."""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from dagster import AssetMaterialization, DagsterInstance, OpExecutionContext, in_process_executor, job, op


def run(fetch: Callable[[], object], tables: Sequence[str], days: Sequence[datetime], history: Path) -> None:
    """Call ``fetch`` as the step of a job, log one event for each table and day, and keep the run in ``history``."""

    @op
    def fill(context: OpExecutionContext) -> None:
        fetch()
        for day in days:
            for table in tables:
                context.log_event(AssetMaterialization(table, partition=f"{day:%Y-%m-%d}"))

    @job(executor_def=in_process_executor)
    def backfill() -> None:
        fill()

    history.mkdir()
    with DagsterInstance.local_temp(str(history)) as instance:
        backfill.execute_in_process(instance=instance)
