"""Alerts: rules over the warehouse, the outbox, and delivery by log and webhook.

When rules are evaluated is decided by the caller: the sensor's job or the command.
"""
