"""The store of transfer histories: opening, importing, checking and repairing it.

Answers that are computed from it belong in ``queries`` and ``maps``, its files in ``files``, its SQLite tables in
``catalog``.
"""

from holderlake.engine.store.store import Store

__all__ = ["Store"]
