"""Pictures of maps: the scene to show, its ``layout``, and the ``drawing``.

Inputs are Arrow tables of a map, outputs bytes of a file; nothing here knows HTTP or billing.
"""
