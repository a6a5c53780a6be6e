"""The definitions of the installed package, for Dagster: ``dagster dev -m holderlake.dagster.definitions``.

A project of your own may replace assets or resources, as the checkout's ``pipelines/definitions.py`` does.
"""

from dagster import Definitions, definitions

from holderlake.dagster.application import application as build_defs

__all__ = ["build_defs", "defs"]


@definitions
def defs() -> Definitions:
    """Return the definitions that Dagster's own commands load."""
    return build_defs()
