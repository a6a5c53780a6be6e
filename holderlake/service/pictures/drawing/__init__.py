"""The parts of a picture, drawn: bubbles, lines, title and legend."""
