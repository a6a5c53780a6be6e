"""What goes wrong in a command itself; everything else raises the errors of its own room."""

from __future__ import annotations


class RunFailed(Exception):
    """A run ended in failure; the message is the first error's."""
