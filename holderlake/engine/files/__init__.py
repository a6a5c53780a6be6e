"""The files of a store as memory-mapped arrays, with their checksums.

``arrays`` reads and writes files of arrays. Three kinds of files hold arrays: ``transfer_arrays`` (transfers of one
token), ``adjacency`` (all transfers of each address) and ``dictionary`` (address numbers). ``balances`` reads the files
of balances, which are Parquet. ``listing`` opens the files that the catalogue lists, ``entries`` reads the transfers of
some addresses, ``integrity`` compares checksums, and ``disk_errors`` explains errors of the disk. ``importing`` writes
the files; ``queries`` and ``maps`` compute results from them.
"""
