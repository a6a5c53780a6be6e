"""Arithmetic on arrays: big integers, hashes, and compiled loops. Nothing here knows of tokens."""
