"""The commands of ``holderlake``: options, help and printed results.

Modules: ``main`` (assembles the commands, prints errors), ``shared`` (options of several commands), ``servers``
(commands that run until they are stopped) and ``exit_codes``. Packages: ``ingest`` (fetches from a provider), ``lake``
(stored data) and ``own_data`` (your own transfers and service). The work is done in the library; nothing here computes
or stores.
"""
