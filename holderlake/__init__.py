"""Holderlake: a warehouse of token holders through time. This is the library; it imports no Dagster."""
