"""Decode transfer events of EVM chains: ``events`` decodes them, ``rows`` collects the transfers as a table.

Files of event logs are decoded with the same functions. Requests to nodes belong in ``client``.
"""
