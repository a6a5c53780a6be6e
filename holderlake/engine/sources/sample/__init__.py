"""The built-in sample world: two years of invented tokens on four chains, with the same bytes on every machine.

``randomness`` has the random numbers, ``calendar`` the planned actions and the ledger, ``actors`` the wallets, and one
module a chain the histories of its tokens. All is invented, except the chains and their native tokens.
"""

from holderlake.engine.sources.sample.world import World, sample_world

__all__ = ["World", "sample_world"]
