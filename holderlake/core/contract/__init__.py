"""The `/v0` API as plain data, shared by client and service.

Main modules: ``requests`` (paths, options and prices of the requests), ``models`` (the one declaration of each answer's
objects), ``fields`` (a model's fields for decoder, renderer and tables), ``prices``, ``errors`` (error codes),
``tables`` (schemas of lake and warehouse), ``chains`` (known chains, parsers of addresses), ``times`` (instants and
their text forms) and ``exact_json`` (JSON without rounding).

All other packages import this one. It does no I/O and imports no engine, service or pipeline.
"""
