"""Errors of the database of API keys. ``service.errors`` turns them into HTTP answers.

Their messages never contain a secret or the URL of the database.
"""

from __future__ import annotations


class KeysError(Exception):
    """The database of API keys cannot be opened, read or changed. The message gives the reason."""


class KeysBusy(KeysError):
    """The database is locked or unreachable; a retry may succeed.

    ``in_doubt`` is true if the reply to a commit was lost, so that the transaction may or may not have been committed.
    """

    def __init__(self, text: str, in_doubt: bool = False) -> None:
        super().__init__(text)
        self.in_doubt = in_doubt


class DatabaseUnavailable(KeysBusy):
    """The database cannot be used until its operator repairs it: it is full, read-only or denies access."""


class WrongSecret(KeysError):
    """The service's secret is missing, too short, or not the secret that the keys were made with."""


class WrongVersion(KeysError):
    """The tables of the database have a version that this program does not support."""


class UnknownKey(KeysError):
    """No API key has the given prefix or id, or the key has ended."""
