"""Import of ranges of blocks into the store, each block once, with reorganisations.

HTTP and JSON-RPC belong in ``client``.
"""
