"""Shapes, text and colours of a picture.

Modules: ``draw`` (the complete picture), ``header``, ``bubbles`` and ``legend`` (its parts), ``sheet`` (shared
context), ``canvas`` (matplotlib), ``colours``, ``text`` (measures and breaks text) and ``text_format``. ``layout``
computes positions and sizes.
"""
