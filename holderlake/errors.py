"""What goes wrong in a command itself; everything else raises the errors of its own room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holderlake.settings import SettingsError


class RunFailed(Exception):
    """A run that landed nothing; the message is the first error's."""


class RunCancelled(RunFailed):
    """A run that was cancelled before it was done."""


class SomeFailed(RunFailed):
    """A command that did part of its work; the message gives the count of what failed and where to look."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Imports of packages that only an extra brings. Raises ``SettingsError`` that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"this needs the package {error.name}, which is not installed; "
            f"pip install 'holderlake[{name}]' brings it, and in a checkout make extras"
        ) from error
