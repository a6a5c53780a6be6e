"""Commands about the user's own store and service: imports, labels, indexed tokens, entities, keys, cluster.

Modules: ``imports`` (transfers and labels), ``verify``, ``balances``, ``negatives``, ``index`` (tokens that link
holders on all maps), ``entities`` (wallets of one owner), ``store`` (check and repair), ``keys`` (API keys),
``cluster`` and ``cluster_jobs`` (computation on Spark). They parse options and call ``holderlake.local``, which does
the work.
"""
