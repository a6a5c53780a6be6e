"""The commands of ``holderlake``: options, help and printed results.

``main`` has the tree of commands, and prints errors. Each group of commands is a module: ``fetch`` (from a provider),
``warehouse`` (queries, files, pages), ``servers`` (commands that run until they are stopped), ``alerts``, ``imports``,
``store``, ``cluster``, ``keys``, ``home``, ``lake`` and ``delete``. ``shared`` has the options of several commands. The
work is done in the library; only the reports of ``demo``, ``backfill``, ``outcome`` and ``credits``, the jobs of
``cluster_jobs`` and the server of ``metrics`` are here.

This room may import all others; none imports it.
"""
