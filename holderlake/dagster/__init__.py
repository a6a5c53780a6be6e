"""Factories of Dagster assets, checks and partitions. The only package of the library that imports Dagster."""
