"""Transfers of a range of blocks from a node into the store, each block once, with reorganisations."""
