"""The built-in sample world: two years of invented transfers on four chains, with the same bytes on every machine.

``world`` makes it. ``actors`` has the wallets, exchanges and tokens. ``calendar`` has the planned actions and the
transfers that they make. ``randomness`` has the random numbers, ``trading`` the behaviour of wallets.
``ethereum``, ``base``, ``bnb`` and ``solana`` have the tokens of one chain. All is invented, except the chains and
their native tokens.
"""
