"""What runs: Dagster definitions, jobs, schedules, sensors, the plan and backfill, and the ``holderlake`` command."""
