"""The exit codes that all ``holderlake`` commands share. What a run did decides among them, not what it printed."""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import Final


class ExitCode(IntEnum):
    """How a command ended."""

    LANDED = 0
    NOTHING_DONE = 1
    WRONG_USAGE = 2
    SOME_FAILED = 3


EXIT_CODES: Final = MappingProxyType(
    {
        ExitCode.LANDED: "Everything landed.",
        ExitCode.NOTHING_DONE: "Nothing could be done; standard error names the reason.",
        ExitCode.WRONG_USAGE: "The command's options or arguments are wrong.",
        ExitCode.SOME_FAILED: "Some of it failed; standard error gives the count and where to look.",
    }
)
"""Each code's meaning in one sentence, for ``--help`` and ``docs/commands.md``."""
