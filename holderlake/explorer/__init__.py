"""The explorer: a local, read-only web page of the warehouse, and the JSON that it reads.

The page's source is in ``web/``; ``static/`` is its build.
"""
