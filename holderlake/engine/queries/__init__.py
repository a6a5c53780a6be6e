"""Answers about one token as of any second: balances, holders, addresses, items, metrics. No graphs."""
