"""The explorer: a local, read-only web page that shows the warehouse, and the JSON routes that the page calls.

Modules: ``app`` (server, routes and security), ``answers`` (queries; their SQL is in ``sql/``) and ``published``
(connections to the warehouse). The page's source is in the folder ``web/``; ``static/`` has
the files built from it.
"""
