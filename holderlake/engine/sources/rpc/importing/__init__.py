"""Import ranges of blocks into the store, each block once, and roll back after reorganisations.

``run`` is the import. ``reading`` reads transfers of ranges of blocks, with ``native`` for the chain's coin and
``width`` for the size of requests. ``checkpoints`` records the blocks that were read, as ``intervals``. ``metadata``
reads names of tokens. HTTP and JSON-RPC belong in ``client``.
"""
