"""The store of transfers: opening, importing, checking and repairing it.

``store`` is the class ``Store`` with its imports and reads. ``metadata`` is the part of it for tokens and labels.
``verify`` checks all files, ``rebuild`` repairs them, and ``unlisted`` handles
files that the catalogue does not list. Results computed from a store belong in ``queries`` and ``maps``, its files in
``files``, its SQLite tables in ``catalog``.
"""

from holderlake.engine.store.store import Store

__all__ = ["Store"]
