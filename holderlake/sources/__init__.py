"""Sources: files of transfers, nodes and portals of chains, labels, token and balance lists, and the sample world.

``files`` reads files of transfers, ``rpc`` reads nodes, ``nodes`` imports from them by the settings. ``labels`` reads
files of labels; its rules for kinds of addresses are in ``label_kinds``. ``token_lists`` and ``balance_lists`` read
lists. ``raw_rows`` and ``json_rows`` read Parquet, JSON and CSV for these modules; ``problems`` has errors with row and
column. ``sample_world`` has the sample world, and ``store`` opens the user's own store.

This room may import the core and the engine. The service, operations and the command line import it.
"""
