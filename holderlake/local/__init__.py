"""The provider in this process, and commands on the user's own store.

``embedded`` starts the service over the sample world or the user's store, and ``engine`` computes without HTTP.
``store`` opens a store, ``accounts`` the database of API keys. ``serve`` runs ``holderlake serve``. ``imports``,
``nodes``, ``opening_balances``, ``indexed_tokens``, ``negative_balances`` and ``store_care`` run the commands on the
store. The computations belong in ``holderlake.engine``, and the HTTP routes in ``holderlake.service``. This package
connects both to the settings.
"""
