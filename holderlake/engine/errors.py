"""Exceptions of the engine. The service answers each with the contract's error that has the same code."""

from __future__ import annotations


class EngineError(Exception):
    """Base of the errors that the engine raises."""

    code = "unavailable"


class UnknownToken(EngineError):
    """The store has neither metadata nor a transfer of the token."""

    code = "unknown_token"


class NoHolders(EngineError):
    """The token has no holders at the requested instant."""

    code = "no_holders"


class UnknownCluster(EngineError):
    """The token's map has no cluster of the requested number at the requested instant."""

    code = "unknown_cluster"


class UnsupportedToken(EngineError):
    """No map can be made for the token. The message gives the reason."""

    code = "unsupported_token"


class BadSource(EngineError):
    """A file can't be imported, or a store has an unknown format. Nothing is stored.

    The message names the file, the faulty row and the remedy.
    """

    code = "bad_source"


class UnusableStore(EngineError):
    """The store can't be read or written.

    The message is for the operator and names the file and the remedy. ``public`` is the message for clients of the
    service; it names no path.
    """

    code = "unavailable"
    public = "The store can't be read or written; the operator's log names the file and the remedy"


class DamagedCatalog(UnusableStore):
    """The store's SQLite catalogue is lost, damaged, or older than the files.

    ``holderlake store rebuild`` repairs it.
    """


class DamagedFile(UnusableStore):
    """A file of the store is missing, or has changed since it was written.

    ``path`` is relative to the store's folder.
    """

    public = "A file of the store is damaged; the operator's log names it and the remedy"

    def __init__(self, text: str, path: str) -> None:
        super().__init__(text)
        self.path = path
