"""Metrics of Dagster's runs. Metrics of a home without Dagster are in ``holderlake/monitoring``."""
