"""What can go wrong with a node, and how its words are understood.

RpcError             an endpoint's host stands in the message, never its address
- Unavailable        no whole answer, or none now: worth a retry
- Misled             an answer that contradicts itself or the question: worth another endpoint
- TooMuch            more than the endpoint gives at a time: to be asked for in smaller parts
- BatchTooLong       more calls in one request than the endpoint takes; it is sent fewer from then on
- Refused            an error that asking again would not change
- WrongChain         the endpoint is of another chain, or became one
- ChainMoved         the blocks that were read are no longer the chain's
- Diverged           nor is any block that we know
"""

from __future__ import annotations

import re
from typing import Final

from holderlake.engine.errors import EngineError


class RpcError(EngineError):
    """Base of all that reading from a node raises."""

    code = "node"


class Unavailable(RpcError):
    """No whole answer, or none now. ``retry_after``: seconds, where the endpoint names them."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Misled(RpcError):
    """The answer can't be true: logs of other blocks than asked, blocks that are null, text that is no JSON."""


class TooMuch(RpcError):
    """The endpoint limits blocks, results, bytes or time of an answer."""


class BatchTooLong(RpcError):
    """The endpoint takes fewer calls in one request, or one only."""


class Refused(RpcError):
    """The endpoint says no, and would again. ``number`` is JSON-RPC's code of the error."""

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.number = number

    @property
    def is_unknown_method(self) -> bool:
        return self.number in _NO_METHOD or bool(_NO_METHOD_WORDS.search(str(self)))


class WrongChain(RpcError):
    """The endpoint's chain id is not the one that is imported."""


class ChainMoved(RpcError):
    """A reorganisation happened while blocks were read; the importer rolls back and goes on."""


class Diverged(RpcError):
    """The node's chain shares no block with what was imported: another network, or a reorganisation beyond memory."""


_NO_METHOD: Final = (-32601, -32004)
_NO_METHOD_WORDS: Final = re.compile(
    r"(method|namespace)\b.*\b(not (found|supported|available|exist|enabled|allowed)|does not exist|disabled)"
    r"|unsupported method|unknown method|not implemented",
    re.IGNORECASE,
)
_RATE: Final = re.compile(
    r"rate.?limit|too many requests|requests? per (second|minute)|per second|throughput|capacity|quota|credits"
    r"|daily|monthly|compute units|throttl|busy|overload|try again later|retry later",
    re.IGNORECASE,
)
_SIZE: Final = re.compile(
    r"block range|range (is )?(too|limit|exceed)|\brange\b.*\b(large|wide|limit|max|exceed|less|greater|up to)"
    r"|too many (results|blocks|logs|topics)|too (large|wide|big|long)|more than \d+ (results|logs|blocks)"
    r"|exceeds?\b.*\b(limit|max|range|size|results|blocks|logs)|limit(ed)? .*\b(range|blocks|results|logs)"
    r"|max(imum)?\b.*\b(range|blocks|results|logs)|response size|query (time|returned)|time.?d? ?out|timeout"
    r"|took too long|deadline exceeded|reduce the|smaller|narrow",
    re.IGNORECASE,
)
_PASSING: Final = re.compile(
    r"internal error|header not found|unknown block|missing trie|not (yet )?(available|synced)|unavailable|syncing"
    r"|connection|bad gateway|no (healthy )?(upstream|backend)",
    re.IGNORECASE,
)
_TOO_MANY: Final = 429


def understood(host: str, number: int, words: str, *, is_divisible: bool) -> RpcError:
    """The error that a JSON-RPC error stands for. Providers share neither codes nor words, so the words decide.

    ``is_divisible``: the call was for something that can be asked for in smaller parts.
    """
    told = f"{host} says: {shortened(words)} ({number})"
    is_size = bool(_SIZE.search(words))
    if number == _TOO_MANY or (_RATE.search(words) and not is_size):
        return Unavailable(told)
    if is_divisible and is_size:
        return TooMuch(told)
    if is_size or _PASSING.search(words):
        return Unavailable(told)
    return Refused(told, number)


def shortened(text: str, most: int = 200) -> str:
    """An endpoint's words on one line, without addresses in them: they may repeat its own, key and all."""
    plain = re.sub(r"\w+://\S+", "***", " ".join(text.split()))
    return plain if len(plain) <= most else f"{plain[:most]}..."
