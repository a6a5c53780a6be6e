"""The exit codes of all ``holderlake`` commands."""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import Final


class ExitCode(IntEnum):
    """The result of a command."""

    LANDED = 0
    NOTHING_DONE = 1
    WRONG_USAGE = 2
    SOME_FAILED = 3


EXIT_CODES: Final = MappingProxyType(
    {
        ExitCode.LANDED: "Everything succeeded.",
        ExitCode.NOTHING_DONE: "Nothing succeeded; standard error gives the reason.",
        ExitCode.WRONG_USAGE: "The command's options or arguments are wrong.",
        ExitCode.SOME_FAILED: "Some of it failed; standard error gives the count and where to look.",
    }
)
"""The meaning of each code in one sentence, for ``--help`` and ``docs/commands.md``."""
