"""The report of a token: an HTML page about one token and period, in one file without external resources.

Modules: ``content`` queries the warehouse, ``pictures`` draws, ``page`` writes the file, and ``text_format`` formats
numbers.
"""
