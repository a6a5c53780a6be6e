"""Analysis: wallets of one owner, and differences between two warehouses.

It may import the core, the engine and the presentation. The service, operations and the command line import it.
"""
