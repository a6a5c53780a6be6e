"""Repair of missing scheduled data: the partitions due by the schedule, the missing ones, and when to fetch them again.

The sensors that launch runs are in ``sensors``. The repair of damaged files is in ``maintenance``.
"""
