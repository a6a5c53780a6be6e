"""What the assets, jobs and schedules share: partitions, runs, metadata, versions, errors of a step, dead processes."""
