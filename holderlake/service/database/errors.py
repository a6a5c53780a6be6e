"""Errors of the database of API keys. ``service.errors`` turns them into HTTP answers.

Messages never contain a secret or the database's URL.
"""

from __future__ import annotations


class KeysError(Exception):
    """The database of API keys can't be opened, read or changed; the message gives the reason."""


class KeysBusy(KeysError):
    """The database is locked or unreachable; a retry may succeed.

    ``in_doubt``: the reply to a commit was lost, so the transaction may or may not have been committed.
    """

    def __init__(self, text: str, in_doubt: bool = False) -> None:
        super().__init__(text)
        self.in_doubt = in_doubt


class DatabaseUnavailable(KeysBusy):
    """The database can't be used until its operator repairs it: full, read-only or access denied."""


class WrongSecret(KeysError):
    """The service's secret is missing, too short, or not the secret that the keys were made with."""


class WrongVersion(KeysError):
    """The tables of the database have a version that this program does not support."""


class UnknownKey(KeysError):
    """No API key has the given prefix or id, or the key has ended."""
