"""Functions that assets, jobs and schedules share: partitions, runs, metadata, versions, errors, dead processes."""
