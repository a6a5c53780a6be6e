"""The database of keys and charges: tables, connections, errors and leases of processes."""
