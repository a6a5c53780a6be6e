"""Metadata of assets and of their materialisations: columns, numbers of one partition, plots, versions.

Asset definitions belong in ``holderlake.dagster``.
"""
