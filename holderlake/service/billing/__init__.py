"""API keys, accounts and charges, in SQLite or PostgreSQL."""
