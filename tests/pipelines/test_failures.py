"""Errors of a step, and the earlier runs of a day in their order."""

from datetime import UTC, date
from pathlib import Path

import pytest
from dagster import DagsterInstance, OpExecutionContext, job, op

from holderlake.core.dagster.failures import ERROR_TAG, PARTITION_TAG, step_errors
from holderlake.core.settings import Settings
from holderlake.core.workspace import Endpoint, Workspace
from holderlake.dagster import failures
from holderlake.operations.healing.runs import attempts_of
from tests.helpers.postgres import PostgresServer


@pytest.mark.long
def test_a_run_waits_for_a_state_database_that_is_down(
    own_postgres: PostgresServer, instance: DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "_DELAY_SECONDS", 0)
    settings = Settings(home=tmp_path, state={"url": own_postgres.url()})
    workspace = Workspace(settings, lambda: Endpoint("http://127.0.0.1:9", None, "tests"))
    own_postgres.stop()

    @op
    def open_ledger(context: OpExecutionContext) -> None:
        if context.retry_number == 2:
            own_postgres.start()
        with step_errors(context, retries=0):
            assert workspace.ledger.totals().spent == 0

    @job
    def opening() -> None:
        open_ledger()

    result = opening.execute_in_process(instance=instance)
    assert result.success
    assert result.retry_attempts_for_node("open_ledger") >= 2
    (run,) = instance.get_runs()
    assert run.tags[ERROR_TAG] == "Unreachable"
    workspace.close()


def test_the_ends_of_runs_in_one_second_keep_their_order(instance: DagsterInstance) -> None:
    @job
    def nothing() -> None:
        pass

    for _ in range(3):
        nothing.execute_in_process(instance=instance, tags={PARTITION_TAG: "eth|2026-05-01"})
    ends = [record.end_time for record in instance.get_run_records()]
    attempts = attempts_of(instance, "nothing", [("eth", date(2026, 5, 1))])
    assert [attempt.ended.replace(tzinfo=UTC).timestamp() for attempt in attempts if attempt.ended] == ends
