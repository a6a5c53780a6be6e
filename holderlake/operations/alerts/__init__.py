"""Alerts: rules over the warehouse, the outbox, and delivery to log and webhook.

This package has no schedule: Dagster's sensor or the command line calls it.
"""
