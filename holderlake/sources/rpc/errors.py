"""Errors of nodes, and the meaning of JSON-RPC errors. They name the endpoint's host, never its address, which may hold
a key."""

from __future__ import annotations

import re
from typing import Final

from holderlake.engine.errors import EngineError
from holderlake.sources.formats import FORMATS_TABLE


class RpcError(EngineError):
    """Base class of all errors of nodes."""

    code = "node"


class Unavailable(RpcError):
    """The endpoint gave no complete answer: a retry may help.

    ``retry_after`` is the number of seconds to wait, None if the endpoint does not say it.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class InvalidAnswer(RpcError):
    """The answer is wrong, for example it has events of other blocks, or is not JSON: another endpoint may help."""


class Contradiction(InvalidAnswer):
    """Complete answers contradict each other or the request."""


class TooLarge(RpcError):
    """The call exceeds a limit of the endpoint for one answer: on blocks, results, bytes or time. It must be split."""


class BatchTooLong(RpcError):
    """The request has too many calls for the endpoint, or the endpoint accepts no batches."""


class Refused(RpcError):
    """The endpoint refuses the call, and a retry would not change that. ``number`` is the error code of JSON-RPC."""

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.number = number


class NotKept(Refused):
    """The endpoint has pruned the block or its state: another one may have it."""


class WrongChain(RpcError):
    """The endpoint's chain id differs from that of the import."""


class ChainMoved(RpcError):
    """A reorganisation happened while blocks were read. The importer rolls back and continues."""


class Diverged(RpcError):
    """The node and the imported chain share no block: it is another network, or the reorganisation is very deep."""


_NO_METHOD: Final = -32601
_NO_METHOD_WORDS, _RATE, _SIZE, _ANY_LIMIT, _PASSING, _NOT_KEPT = (
    re.compile("|".join(FORMATS_TABLE["node_errors"][kind]), re.IGNORECASE)
    for kind in ("no_method", "rate", "size", "any_limit", "passing", "not_kept")
)
_LIMIT_CODES: Final = frozenset({-32005, -32016, -32062, -32614, -32701, 413})
"""Error codes with which providers report that a call exceeds a limit."""
_REVERTED: Final = re.compile(r"revert", re.IGNORECASE)
"""Word of errors whose text may come from a contract."""
_TOO_MANY: Final = 429


def error_from(host: str, number: int, words: str, *, is_divisible: bool) -> RpcError:
    """Return the exception for a JSON-RPC error.

    The kind of exception follows from the error's text ``words``, because the error's code ``number`` differs between
    providers. ``is_divisible``: the call can be split into smaller ranges.
    """
    text = f"{host} says: {shortened(words)} ({number})"
    is_size = bool(_SIZE.search(words))
    if number == _TOO_MANY or (_RATE.search(words) and not is_size):
        return Unavailable(text)
    is_method_missing = number == _NO_METHOD or bool(_NO_METHOD_WORDS.search(words))
    if _NOT_KEPT.search(words) and not is_size and not _REVERTED.search(words):
        return NotKept(text, number)
    is_limit = number in _LIMIT_CODES or bool(_ANY_LIMIT.search(words))
    if is_divisible and (is_size or (is_limit and not is_method_missing and not _PASSING.search(words))):
        return TooLarge(text)
    if is_method_missing:
        return Refused(text, number)
    if is_size or _PASSING.search(words):
        return Unavailable(text)
    return Refused(text, number)


def shortened(text: str, limit: int = 200) -> str:
    """Return an endpoint's message as one line of at most ``limit`` characters.

    Addresses are removed, because they may contain a key.
    """
    plain = re.sub(r"\w+://\S+", "***", " ".join(text.split()))
    return plain if len(plain) <= limit else f"{plain[:limit]}..."
