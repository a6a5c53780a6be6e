"""Repair of the schedule: the partitions that it asked for, those that are missing, and the time of the next attempt.

The sensors that launch runs are in ``pipelines.healing``. The repair of damaged files is in ``maintenance``.
"""
