"""Geometry of a picture: the areas of the page, and the sizes and positions of bubbles.

Nothing here draws; shapes, text and colours are in ``drawing``.
"""
