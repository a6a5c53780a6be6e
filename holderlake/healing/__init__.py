"""Repair of the schedule: what it asked for, what is missing of it, and what to try again, and when.

The sensors that launch runs are in ``pipelines.healing``. The repair of damaged files is in ``maintenance``.
"""
