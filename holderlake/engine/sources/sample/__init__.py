"""The built-in sample world: two years of invented tokens on four chains, the same bytes wherever it is made.

``draws`` is its chance, ``book`` its ledger and calendar, ``stage`` its people; one module a chain tells the tokens'
stories. Nothing in it is a real project or a real address; only the chains and their native tokens are.
"""

from holderlake.engine.sources.sample.world import World, sample_world

__all__ = ["World", "sample_world"]
