"""The routes of the API by resource: they declare parameters and hand the request to ``Meter.answer``.

Computing, charging and rendering belong in ``api``, ``billing`` and ``output``.
"""
