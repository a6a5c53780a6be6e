"""The generator of the sample world: two years of invented transfers on four chains.

``python -m benchmarks.sample_world`` writes the files of ``holderlake.sources.sample_world``, the same on every
machine. ``world`` makes the world. ``actors`` has the wallets, exchanges and tokens. ``calendar`` has the planned
actions and the transfers that they make. ``randomness`` has the random numbers, ``trading`` the behaviour of wallets.
``ethereum``, ``base``, ``bnb`` and ``solana`` have the tokens of one chain.
"""
