"""The explorer: a local, read-only web page that shows the warehouse, and the JSON routes that the page calls.

Modules: ``server`` (starts it), ``app`` (routes), ``answers`` (queries; their SQL is in ``sql/``), ``published``
(connections to the warehouse) and ``guard`` (security). The page's source is in the folder ``web/``; ``static/`` has
the files built from it.
"""
