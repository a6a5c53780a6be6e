"""The store as a whole: opening, importing, checking and rebuilding it. Questions about it belong in ``queries``."""
