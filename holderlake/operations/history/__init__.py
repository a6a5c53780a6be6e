"""Dagster's history of runs in a home: its folder and settings, its event log, its format and its retention."""
