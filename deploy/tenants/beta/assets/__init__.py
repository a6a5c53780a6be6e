"""The assets of team beta."""
