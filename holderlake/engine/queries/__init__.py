"""Answers without a graph as of any second: balances, holders, addresses, NFT items, concentration, chains and tokens.

Maps, clusters and relationships are in ``holderlake.engine.maps``.
"""
