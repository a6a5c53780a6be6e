"""The provider in this process, and the user's own store: the embedded service, the local engine, imports.

Computations are in ``holderlake.engine`` and HTTP in ``holderlake.service``; this package
connects both to the settings.
"""
