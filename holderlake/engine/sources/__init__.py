"""Where records come from: files of transfers, nodes of chains, label files, token lists and the built-in sample world.

Each module reads and returns plain records (``holderlake.engine.records``); writing them down is the store's work.
"""
