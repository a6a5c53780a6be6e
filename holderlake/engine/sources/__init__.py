"""Sources of records: files of transfers, nodes of chains, files of labels, lists of tokens and balances, the sample
world.

``files`` reads files of transfers and ``rpc`` reads nodes. ``labels`` reads files of labels, with ``label_kinds`` for
kinds of addresses; ``token_lists`` and ``balance_lists`` read lists. ``rows`` reads Parquet, JSON and CSV for all of
these. ``sample`` makes the sample world. The records are the types of ``holderlake.engine.records``;
``holderlake.engine.store`` stores them.
"""
