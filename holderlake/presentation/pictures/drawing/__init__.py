"""Shapes, text and colours of a picture.

Modules: ``draw`` (the complete picture), ``header``, ``bubbles`` and ``legend`` (its parts), ``sheet`` (shared
context), ``canvas`` (matplotlib), ``colours`` and ``text`` (measures, breaks and formats text). ``layout`` computes
positions and sizes.
"""
