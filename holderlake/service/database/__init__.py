"""The database of API keys and charges: connections, tables, driver errors, and leases of processes.

Statements about keys, charges and calls belong in ``billing``.
"""
