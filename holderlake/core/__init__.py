"""The core: from a provider's answers to Parquet and DuckDB. A newcomer reads it in an afternoon.

``contract`` declares the API, ``settings`` what to fetch, ``storage`` how files are kept. ``provider`` sends each call
once and accounts for its credits, ``archive`` keeps paid answers, ``decoding`` makes Arrow tables of them. ``ingest``
fills partitions, ``lake`` commits them, ``warehouse`` loads them into DuckDB. ``workspace`` joins these parts in one
home folder.

The core imports nothing outside itself. Every other room may import it.
"""
