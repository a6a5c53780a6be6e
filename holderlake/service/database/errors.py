"""What can be wrong with the keys' database and what is asked of it, for all who open it.

What an HTTP caller is told of it stands in ``errors``. Texts never hold a secret, an address or a password of the
database.
"""

from __future__ import annotations


class KeysError(Exception):
    """Keys can't be opened, changed or asked as it was wanted; the message says why."""


class KeysBusy(KeysError):
    """The database is held by another for too long, or not reachable just now: worth a retry.

    ``in_doubt``: the answer to a commit was lost, so that what was written may be there or not.
    """

    def __init__(self, text: str, in_doubt: bool = False) -> None:
        super().__init__(text)
        self.in_doubt = in_doubt


class DatabaseUnavailable(KeysBusy):
    """The database can't be used as it is, until its operator has mended something: full, read-only, closed to us."""


class WrongSecret(KeysError):
    """The service's secret is missing, too short, or not the one that the keys were made with."""


class WrongVersion(KeysError):
    """The tables were made by another version of this program."""


class UnknownKey(KeysError):
    """There is no such key, or none in force."""
