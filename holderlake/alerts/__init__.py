"""Alerts: rules over the warehouse, the outbox, and delivery by log and webhook.

The caller (the sensor's job or the command) decides when to evaluate the rules.
"""
