"""Sources of records: transfer files, chain nodes, label files, token and balance lists, and the built-in sample world.

Each module returns plain records (``holderlake.engine.records``); ``holderlake.engine.store`` stores them.
"""
