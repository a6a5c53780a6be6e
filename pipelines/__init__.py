"""The Dagster application and the command line: definitions, jobs, schedules, sensors, and the commands."""
