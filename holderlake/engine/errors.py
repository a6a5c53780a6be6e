"""Errors of the engine. The service turns each into the contract's error with the same code."""

from __future__ import annotations


class EngineError(Exception):
    """Base of all that the engine raises on purpose."""

    code = "unavailable"


class UnknownToken(EngineError):
    """The store holds neither metadata nor a transfer of the token."""

    code = "unknown_token"


class NoHolders(EngineError):
    """Nobody holds the token at that instant."""

    code = "no_holders"


class UnknownCluster(EngineError):
    """The token's map has no cluster of that number at that instant."""

    code = "unknown_cluster"


class UnsupportedToken(EngineError):
    """No map can be made for the token; the message says why."""

    code = "unsupported_token"


class BadSource(EngineError):
    """A file can't be imported; the message names the file, the place and the way out. Nothing of it is stored."""

    code = "bad_source"


class UnusableStore(EngineError):
    """The store can't be read or written as it is on disk; the message names the file and the remedy.

    It is for the operator. Callers of the service get ``public`` instead, which names no path.
    """

    code = "unavailable"
    public = "The store can't be used as it is on disk; its operator's log names the file and the remedy"


class DamagedCatalog(UnusableStore):
    """The catalogue is lost, damaged, or older than the files; ``holderlake store rebuild`` makes it again."""


class DamagedFile(UnusableStore):
    """A file of the store is missing or its bytes changed since they were written. ``path`` is within the store."""

    public = "A file of the store is damaged; the operator's log names it and the remedy"

    def __init__(self, text: str, path: str) -> None:
        super().__init__(text)
        self.path = path
