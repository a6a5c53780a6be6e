"""The database of API keys and charges, in SQLite or PostgreSQL.

Main modules: ``connections`` (transactions, translation of driver errors), ``schema`` (tables and SQL dialects),
``leases`` (which processes still run) and ``errors``. Statements about keys, charges and calls belong in ``billing``.
"""
