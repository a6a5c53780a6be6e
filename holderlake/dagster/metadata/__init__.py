"""Metadata of assets and of their materialisations: columns, figures of one partition, plots.

Assets belong in ``holderlake.dagster``.
"""
