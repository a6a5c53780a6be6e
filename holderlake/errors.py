"""Every error that the library raises for its users, in one place; and those that end a command.

Their base classes: ``SettingsError`` (a setting is wrong), ``ProviderError`` (a call failed), ``LakeError``,
``WarehouseError``, ``DatabaseError`` (files cannot be used), ``EngineError`` (the engine has no answer).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holderlake.engine.errors import BadSource, EngineError, UnusableStore
from holderlake.lake.manifests import LakeError
from holderlake.provider.errors import (
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
from holderlake.settings import SettingsError
from holderlake.storage.sqlite import DatabaseError
from holderlake.warehouse.warehouse import WarehouseError

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
    """A run that committed nothing; the message is the first error's."""


class RunCancelled(RunFailed):
    """A run that was cancelled."""


class SomeFailed(RunFailed):
    """A command that did part of its work; the message gives the number of failures and where to look."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Guard imports of an optional package. Raises ``SettingsError`` with the command that installs the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"this needs the package {error.name}, which is not installed; "
            f"run pip install 'holderlake[{name}]', or in a checkout make extras"
        ) from error
