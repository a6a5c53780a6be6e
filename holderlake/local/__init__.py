"""The provider in this process, and the user's own store.

``workspaces`` makes the workspace of the settings. ``embedded_service`` serves the sample world (``sample_world``) or
the user's store, and ``store_engine`` computes answers without HTTP. ``store`` opens a store, ``accounts`` the database
of API keys. ``serve`` runs the HTTP service, ``nodes`` imports transfers from nodes. The computations belong in
``holderlake.engine``, and the HTTP routes in ``holderlake.service``. This package connects both to the settings.
"""
