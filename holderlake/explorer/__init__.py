"""The explorer: a local, read-only web page that shows the warehouse, and the JSON routes that the page calls.

The page's source is in the folder ``web/``; ``static/`` has the files built from it.
"""
