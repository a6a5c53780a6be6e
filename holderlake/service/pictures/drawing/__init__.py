"""Shapes, text and colours of a picture: bubbles, lines, title and legend.

Positions and sizes are computed in ``layout``.
"""
