"""One address of a node over HTTP: batches of calls in, typed answers out, and never a word of the address itself.

The address may hold a key, so only its host appears in errors and reports. Whether to try again is ``node``'s work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import msgspec
from pydantic import SecretStr
from yarl import URL

from holderlake.engine.sources.rpc.client.errors import (
    BatchTooLong,
    Misled,
    Refused,
    RpcError,
    TooMuch,
    Unavailable,
    WrongChain,
    shortened,
    understood,
)
from holderlake.engine.sources.rpc.client.messages import Call, chain_id, number
from holderlake.http.bounded_body import ACCEPT_ENCODING, MEGABYTE, UnusableBody, read_body

ANSWER_BYTES: Final = 256 * MEGABYTE
_CONNECT_SECONDS: Final = 10.0
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_TOO_LARGE: Final = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.GATEWAY_TIMEOUT, HTTPStatus.REQUEST_TIMEOUT)
_KEY_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
_CHECK_EVERY: Final = 50
"""Requests after which an endpoint that takes no batches is asked for its chain again; others tell with each batch."""


class _Fault(msgspec.Struct):
    code: int = 0
    message: str = ""
    data: Any = None


class _Reply(msgspec.Struct):
    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw(b"")
    error: _Fault | None = None


_REPLIES: Final = msgspec.json.Decoder(list[_Reply] | _Reply)


class Endpoint:
    """An address that answers JSON-RPC, for one event loop; ``close`` it.

    ``timeout``: seconds for one whole answer. ``answer_bytes``: its size at most, on the wire and decompressed.
    Raises ``ValueError`` on an address that can't be one.
    """

    def __init__(
        self,
        url: SecretStr,
        *,
        timeout: float,
        batch: int,
        connections: int,
        answer_bytes: int = ANSWER_BYTES,
    ) -> None:
        address = _checked(url)
        self.host = str(address.host) if address.explicit_port is None else f"{address.host}:{address.port}"
        self.batch = batch
        self.requests = 0
        self._address = address
        self._timeout = timeout
        self._number = 0
        self._unchecked = _CHECK_EVERY
        self._connections = connections
        self._answer_bytes = answer_bytes
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"Endpoint({self.host!r})"

    async def close(self) -> None:
        """Closes its connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(self._timeout, _CONNECT_SECONDS)),
                headers={
                    "Content-Type": "application/json",
                    "Accept": "application/json",
                    "Accept-Encoding": ACCEPT_ENCODING,
                },
                auto_decompress=False,  # aiohttp's own decompression has no limit
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=self._address.host not in _LOOPBACK,
            )
        return self._session

    async def chain_id(self) -> int:
        """The chain that it is of. Raises ``RpcError``."""
        (found,) = await self._exchange([chain_id()])
        return self._number_of(found)

    async def ask(self, calls: Sequence[Call], evm_id: int) -> list[Any]:
        """The calls' results, in their order, of the chain ``evm_id`` for certain. Raises ``RpcError``."""
        if self.batch == 1:
            await self._check_now_and_then(evm_id)
            return [result for call in calls for result in await self._exchange([call])]
        found, *answers = await self._exchange([chain_id(), *calls])
        self._check(self._number_of(found), evm_id)
        return answers

    async def _check_now_and_then(self, evm_id: int) -> None:
        self._unchecked += 1
        if self._unchecked > _CHECK_EVERY:
            self._check(await self.chain_id(), evm_id)
            self._unchecked = 0

    def _check(self, found: int, expected: int) -> None:
        if found != expected:
            raise WrongChain(f"{self.host} is of chain {found}, not of chain {expected}; leave it out")

    def _number_of(self, found: str) -> int:
        try:
            return number(found)
        except ValueError as error:
            raise Misled(f"{self.host} has no chain id: {error}") from None

    async def _exchange(self, calls: Sequence[Call]) -> list[Any]:
        numbered = {self._number + place: call for place, call in enumerate(calls, start=1)}
        self._number += len(calls)
        body = [
            {"jsonrpc": "2.0", "id": own, "method": call.method, "params": call.params}
            for own, call in numbered.items()
        ]
        raw = await self._post(msgspec.json.encode(body if len(body) > 1 else body[0]), calls)
        replies = self._replies(raw, len(calls), any(call.is_divisible for call in calls))
        return [self._result(call, replies.get(own)) for own, call in numbered.items()]

    async def _post(self, body: bytes, calls: Sequence[Call]) -> bytes:
        is_divisible = any(call.is_divisible for call in calls)
        self.requests += 1
        # The failure is kept, and raised outside, so that the library's request, which has the key, hangs on nothing.
        failure: RpcError
        try:
            # Elsewhere than where it was meant for, the key would be given away.
            asked = self._opened().post(self._address, data=body, allow_redirects=False)
            async with asyncio.timeout(self._timeout), asked as answer:
                encoding = answer.headers.get("Content-Encoding", "")
                content = await read_body(answer.content.iter_any(), encoding, self._answer_bytes)
        except TimeoutError:
            failure = (TooMuch if is_divisible else Unavailable)(f"{self.host} gave no answer in {self._timeout:g} s")
        except UnusableBody as error:
            too_much = is_divisible and error.kind == "too_large"
            failure = (TooMuch if too_much else Unavailable)(f"{self.host}: {error}")
        except (aiohttp.ClientError, OSError) as error:
            failure = Unavailable(f"{self.host} gave no whole answer: {type(error).__name__}")
        else:
            if 200 <= answer.status < 300:
                return content
            failure = self._http_error(answer.status, answer.headers.get("Retry-After"), content, is_divisible)
        raise failure

    def _http_error(self, status: int, retry_after: str | None, raw: bytes, is_divisible: bool) -> RpcError:
        fault = _fault_in(raw)
        if is_divisible and status in _TOO_LARGE:
            return TooMuch(f"{self.host} answers {status}")
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return Unavailable(f"{self.host} limits the rate", _seconds(retry_after))
        if fault is not None:
            return understood(self.host, fault.code, fault.message, is_divisible=is_divisible)
        advice = "; is its key right?" if status in _KEY_REFUSED else ""
        return Unavailable(f"{self.host} answers {status}{advice}", _seconds(retry_after))

    def _replies(self, raw: bytes, expected: int, is_divisible: bool) -> dict[Any, _Reply]:
        try:
            found = _REPLIES.decode(raw)
        except msgspec.DecodeError:
            raise Misled(f"{self.host} answers with something else than JSON-RPC") from None
        if isinstance(found, list):
            return {reply.id: reply for reply in found}
        if expected == 1:
            return {found.id: found}
        words = found.error.message if found.error else "one answer to many calls, as if batches were unknown"
        failure = understood(self.host, found.error.code if found.error else 0, words, is_divisible=is_divisible)
        if not isinstance(failure, Refused) and "batch" not in words.lower():
            raise failure
        self.batch = min(self.batch, max(1, expected // 2))  # it takes no batches, or none so long
        raise BatchTooLong(f"{self.host} takes no batch of {expected}: {shortened(words)}")

    def _result(self, call: Call, reply: _Reply | None) -> Any:
        if reply is None:
            raise Misled(f"{self.host} left {call.method} unanswered")
        if reply.error is not None:
            failure = understood(self.host, reply.error.code, reply.error.message, is_divisible=call.is_divisible)
            if call.may_fail and not isinstance(failure, Unavailable):
                return None
            raise failure
        try:
            return msgspec.json.decode(reply.result or b"null", type=call.answer)
        except msgspec.DecodeError as error:
            raise Misled(f"{self.host} answers {call.method} with what can't be one: {shortened(str(error))}") from None


def _fault_in(raw: bytes) -> _Fault | None:
    try:
        found = _REPLIES.decode(raw)
    except msgspec.DecodeError:
        return None
    return next((reply.error for reply in (found if isinstance(found, list) else [found]) if reply.error), None)


def _checked(url: SecretStr) -> URL:
    try:
        address = URL(url.get_secret_value().strip())
    except ValueError:
        raise ValueError("a node's address can't be read; it is one such as http://127.0.0.1:8545") from None
    if address.scheme not in ("http", "https") or not address.host:
        raise ValueError("a node's address begins with http:// or https://, such as http://127.0.0.1:8545")
    return address


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdigit() else None
