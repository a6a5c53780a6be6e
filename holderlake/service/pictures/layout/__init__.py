"""Positions and sizes of bubbles in a picture."""
