"""Geometry of a picture: the areas of the page, and the sizes and positions of bubbles.

Modules: ``page`` (areas), ``bubbles`` (sizes and positions) and ``packing`` (circles without overlaps).
Nothing here draws; shapes, text and colours are in ``drawing``.
"""
