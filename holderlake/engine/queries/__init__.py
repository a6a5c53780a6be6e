"""Queries as of any second that need no graph: holders, balances, addresses, NFT items, chains, tokens.

``holders`` returns holders by rank. It uses ``balances``, which reads its arrays from ``balance_rows``. ``addresses``
has details of addresses, ``items`` the items of NFTs, ``negative_balances`` balances below zero, and ``tokens`` chains
and tokens. ``tables`` builds Arrow tables. Maps, clusters, relationships and concentration belong in
``holderlake.engine.maps``.
"""
