"""The earlier runs of a day in their order."""

from datetime import UTC

from dagster import DagsterInstance, job

from holderlake.core.contract.times import utc_now
from holderlake.core.dagster.tags import PARTITION_TAG
from holderlake.operations.healing.runs import asked_since
from tests.helpers.filling import MakeWorkspace


def test_the_ends_of_runs_in_one_second_keep_their_order(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    @job
    def nothing() -> None:
        pass

    start = utc_now()
    for _ in range(3):
        nothing.execute_in_process(instance=instance, tags={PARTITION_TAG: "eth|2026-05-01"})
    ends = [record.end_time for record in instance.get_run_records()]
    attempts = [asked.attempt for asked in asked_since(make_workspace(), instance, start, ["nothing"])]
    assert [attempt.ended.replace(tzinfo=UTC).timestamp() for attempt in attempts if attempt.ended] == ends
