"""The public errors of the library in one place, and the errors that end a command.

Base classes: ``SettingsError`` (a setting is wrong), ``ProviderError`` (a call failed), ``LakeError``,
``WarehouseError`` and ``DatabaseError`` (files cannot be used), ``EngineError`` (the engine has no answer),
``RunFailed`` (a run or command failed).
"""

from __future__ import annotations

from holderlake.core.lake.manifests import LakeError
from holderlake.core.provider.errors import (
    BudgetExceeded,
    CreditsExhausted,
    InvalidKey,
    InvalidRequest,
    MalformedAnswer,
    NoAnswer,
    PermanentError,
    ProviderError,
    TransientError,
)
from holderlake.core.settings import SettingsError
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.core.warehouse.warehouse import WarehouseError
from holderlake.engine.errors import BadSource, EngineError, UnusableStore

__all__ = [
    "BadSource",
    "BudgetExceeded",
    "CreditsExhausted",
    "DatabaseError",
    "EngineError",
    "InvalidKey",
    "InvalidRequest",
    "LakeError",
    "MalformedAnswer",
    "NoAnswer",
    "PermanentError",
    "ProviderError",
    "RunCancelled",
    "RunFailed",
    "SettingsError",
    "SomeFailed",
    "TransientError",
    "UnusableStore",
    "WarehouseError",
]


class RunFailed(Exception):
    """A run failed and committed nothing. Its message is the text of the run's first error."""


class RunCancelled(RunFailed):
    """A run was cancelled."""


class SomeFailed(RunFailed):
    """A command did only part of its work. The message has the number of failures and the command that shows them."""
