"""Alerts: rules in SQL over the warehouse, an outbox of what they found, and its delivery."""
