"""The assets of team alpha."""
