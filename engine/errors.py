"""Why the engine has no answer. The service turns each into the contract's error of the same code."""

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
