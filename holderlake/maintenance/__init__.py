"""Repair and clean-up of a lake: rebuild, replay, retry, prune. None of it fetches what the archive has."""
