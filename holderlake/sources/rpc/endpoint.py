"""JSON-RPC by HTTP to one endpoint: batches of calls, and typed results.

The address may contain a key, so errors and reports show only its host. ``node`` retries failed calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import httpx
import msgspec
from pydantic import SecretStr

from holderlake.core.http import RESPONSE_BYTES, HttpClient, HttpError, retry_after
from holderlake.sources.rpc.errors import (
    BatchTooLong,
    InvalidAnswer,
    NotKept,
    Refused,
    RpcError,
    TooLarge,
    Unavailable,
    WrongChain,
    error_from,
    shortened,
)
from holderlake.sources.rpc.messages import Call, chain_id, number

TOO_LARGE: Final = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.GATEWAY_TIMEOUT, HTTPStatus.REQUEST_TIMEOUT)
_KEY_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
_MOST_WORDS: Final = 2_000
_CHECK_EVERY: Final = 50
"""Number of requests between two checks of the chain id, for an endpoint that accepts no batches.

A batch always includes a check.
"""


@dataclass(frozen=True)
class _Fault:
    """An error of the endpoint: its code, and all its words."""

    code: int
    words: str


class _Reply(msgspec.Struct):
    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw(b"")
    error: Any = None

    @property
    def fault(self) -> _Fault | None:
        return None if self.error is None else _fault(self.error)


_REPLIES: Final = msgspec.json.Decoder(list[_Reply] | _Reply)


class Endpoint:
    """A JSON-RPC endpoint, for use in one event loop. Call ``close`` after use.

    ``timeout`` is the seconds for one complete answer, ``batch`` the most calls in one request, ``connections`` the
    most connections at a time, and ``answer_bytes`` the largest size of an answer, compressed or decompressed. Raises
    ``ValueError`` for an invalid address.
    """

    def __init__(
        self, url: SecretStr, *, timeout: float, batch: int, connections: int, answer_bytes: int = RESPONSE_BYTES
    ) -> None:
        address = _checked(url)
        self.host = address.host if address.port is None else f"{address.host}:{address.port}"
        self.batch = batch
        self.requests = 0
        self._address = str(address)
        self._timeout = timeout
        self._number = 0
        self._unchecked = _CHECK_EVERY
        self._http = HttpClient(
            address,
            headers={"Content-Type": "application/json", "User-Agent": "holderlake"},
            timeout=timeout,
            connections=connections,
            response_bytes=answer_bytes,
        )

    def __repr__(self) -> str:
        return f"Endpoint({self.host!r})"

    async def close(self) -> None:
        """Close the connections of the endpoint."""
        await self._http.close()

    async def chain_id(self) -> int:
        """Return the chain id that the endpoint reports. Raises ``RpcError``."""
        (reported_id,) = await self._exchange([chain_id()])
        return self._number_of(reported_id)

    async def ask(self, calls: Sequence[Call], evm_id: int) -> list[Any]:
        """Return the results of the calls, in their order, after checking that the endpoint's chain id is ``evm_id``.

        Raises ``RpcError``.
        """
        if self.batch == 1:
            await self._check_sometimes(evm_id)
            return [result for call in calls for result in await self._exchange([call])]
        reported_id, *answers = await self._exchange([chain_id(), *calls])
        self._check(self._number_of(reported_id), evm_id)
        return answers

    async def _check_sometimes(self, evm_id: int) -> None:
        self._unchecked += 1
        if self._unchecked > _CHECK_EVERY:
            self._check(await self.chain_id(), evm_id)
            self._unchecked = 0

    def _check(self, reported_id: int, expected: int) -> None:
        if reported_id != expected:
            raise WrongChain(f"{self.host} has chain id {reported_id}, not {expected}; remove this endpoint")

    def _number_of(self, quantity: str) -> int:
        try:
            return number(quantity)
        except ValueError as error:
            raise InvalidAnswer(f"{self.host} sent an invalid chain id ({error}); use another endpoint") from None

    async def _exchange(self, calls: Sequence[Call]) -> list[Any]:
        numbered = {self._number + place: call for place, call in enumerate(calls, start=1)}
        self._number += len(calls)
        body = [
            {"jsonrpc": "2.0", "id": call_id, "method": call.method, "params": call.params}
            for call_id, call in numbered.items()
        ]
        is_divisible = any(call.is_divisible for call in calls)
        content = msgspec.json.encode(body if len(body) > 1 else body[0])
        raw = await self._send("POST", self._address, content, is_divisible)
        replies = self._replies(raw, len(calls), is_divisible)
        return [self._result(call, replies.get(call_id)) for call_id, call in numbered.items()]

    async def _send(self, method: str, address: str, body: bytes | None, is_divisible: bool) -> bytes:
        self.requests += 1
        failure: RpcError
        try:
            response = await self._http.send(method, address, content=body)
        except HttpError as error:
            is_too_much = is_divisible and error.cause in ("timeout", "too_large")
            # An error of the connection may hold the address, so only its kind is named.
            reasons = {
                "unsent": f"it cannot be reached ({error.kind}); check its address",
                "closed": f"the connection ended ({error.kind})",
            }
            reason = reasons.get(error.cause, str(error))
            failure = (TooLarge if is_too_much else Unavailable)(f"{self.host} gave no complete answer: {reason}")
        else:
            if 200 <= response.status < 300:
                return response.content
            seconds = retry_after(response.headers.get("retry-after"))
            failure = self._http_error(response.status, seconds, response.content, is_divisible)
        raise failure

    def _http_error(self, status: int, seconds: float | None, raw: bytes, is_divisible: bool) -> RpcError:
        fault = _fault_in(raw)
        if is_divisible and status in TOO_LARGE:
            return TooLarge(f"{self.host} answers with HTTP status {status}")
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return Unavailable(f"{self.host} limits the rate of requests; wait, or add an endpoint", seconds)
        if fault is not None:
            return error_from(self.host, fault.code, fault.words, is_divisible=is_divisible)
        advice = "; check the address and the key of this endpoint" if status in _KEY_REFUSED else ""
        return Unavailable(f"{self.host} answers with HTTP status {status}{advice}", seconds)

    def _replies(self, raw: bytes, expected: int, is_divisible: bool) -> dict[Any, _Reply]:
        try:
            decoded = _REPLIES.decode(raw)
        except msgspec.DecodeError:
            raise InvalidAnswer(
                f"{self.host} did not answer with JSON-RPC; check the address of this endpoint"
            ) from None
        if isinstance(decoded, list):
            return {reply.id: reply for reply in decoded}
        if expected == 1:
            return {decoded.id: decoded}
        fault = decoded.fault or _Fault(0, "it sent one answer instead of one for each call of the batch")
        words = fault.words
        failure = error_from(self.host, fault.code, words, is_divisible=is_divisible and decoded.fault is not None)
        if not isinstance(failure, Refused) and "batch" not in words.lower():
            raise failure
        self.batch = min(self.batch, max(1, expected // 2))  # it accepts no batches, or only shorter ones
        raise BatchTooLong(f"{self.host} refuses a batch of {expected} calls; send fewer at a time: {shortened(words)}")

    def _result(self, call: Call, reply: _Reply | None) -> Any:
        if reply is None:
            raise InvalidAnswer(f"{self.host} sent no result for {call.method}; use another endpoint")
        fault = reply.fault
        if fault is not None:
            failure = error_from(self.host, fault.code, fault.words, is_divisible=call.is_divisible)
            if call.may_fail and not isinstance(failure, (Unavailable, NotKept)):
                return None
            raise failure
        try:
            return msgspec.json.decode(reply.result or b"null", type=call.answer)
        except msgspec.DecodeError as error:
            raise InvalidAnswer(
                f"{self.host} sent an invalid result for {call.method} ({shortened(str(error))}); use another endpoint"
            ) from None


def _fault_in(raw: bytes) -> _Fault | None:
    """Return the error in the body of an HTTP error, which may be JSON-RPC, other JSON or plain text."""
    try:
        document = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        text = raw[:_MOST_WORDS].decode("utf-8", "replace").strip()
        return _Fault(0, text) if text and not text.startswith("<") else None
    answers = document if isinstance(document, list) else [document]
    errors = [
        answer.get("error", answer if "message" in answer else None) for answer in answers if isinstance(answer, dict)
    ]
    return next((_fault(error) for error in errors if error), None)


def _fault(error: Any) -> _Fault:
    """Return the code and all words of an error, which is an object in JSON-RPC, and a text at some endpoints."""
    if not isinstance(error, dict):
        return _Fault(0, str(error))
    code, data = error.get("code"), error.get("data")
    words = [
        str(error.get("message") or ""),
        data if isinstance(data, str) else str((data or {}).get("message") or "") if isinstance(data, dict) else "",
    ]
    return _Fault(code if isinstance(code, int) else 0, ": ".join(text for text in words if text))


def _checked(url: SecretStr) -> httpx.URL:
    try:
        address = httpx.URL(url.get_secret_value().strip())
    except httpx.InvalidURL:
        raise ValueError(
            "invalid address of a node (not shown, as it may contain a key); use for example http://127.0.0.1:8545"
        ) from None
    if address.scheme not in ("http", "https") or not address.host:
        raise ValueError(
            "the address of a node (not shown, as it may contain a key) must begin with http:// or https://, for "
            "example http://127.0.0.1:8545"
        )
    return address
