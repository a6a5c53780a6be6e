"""Nodes of chains as a source of the user's own store: imports, checks, and following the head of a chain.

The requests and their checks are in ``sources.rpc``; here are settings, reports and the store.
"""
