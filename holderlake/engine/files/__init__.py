"""The files of a store as memory-mapped arrays: parts, adjacency, dictionary, and their checksums.

``catalog`` lists the files, ``importing`` writes them, ``queries`` and ``maps`` compute answers from them.
"""
