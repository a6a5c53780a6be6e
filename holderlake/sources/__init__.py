"""Sources of records: files of transfers, nodes of chains, files of labels, lists of tokens and balances, the sample
world.

``files`` reads files of transfers, and ``rpc`` reads transfers from nodes. ``labels`` reads files of labels; its rules
for kinds of addresses are in ``label_kinds``. ``token_lists`` and ``balance_lists`` read lists. ``raw_rows`` and
``json_rows`` read Parquet, JSON and CSV for these modules; ``problems`` has errors with row and column. ``sample``
makes the sample world. The records have the types of ``holderlake.engine.records``; ``holderlake.engine.store`` stores
them.
"""
