"""The report of a token: a self-contained HTML page about one token and period.

``content`` queries the warehouse, ``pictures`` draws, and ``page`` writes the file.
"""
