"""The sample world, made once for all tests of a process: it is the same each time, and takes most of a second."""

from __future__ import annotations

from functools import cache

from holderlake.sources.sample_world import World, sample_world


@cache
def the_world() -> World:
    """The world; who changes what it holds changes it for all."""
    return sample_world()
