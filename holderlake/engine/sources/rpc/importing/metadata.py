"""Read names, symbols and decimals of tokens from their contracts, and find the addresses that are contracts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from holderlake.engine.records import Label, TokenInfo
from holderlake.engine.sources.rpc.client.messages import Call, code, eth_call
from holderlake.engine.sources.rpc.client.node import Node
from holderlake.engine.sources.rpc.importing.reading import SOURCE, parts

_NAME, _SYMBOL, _DECIMALS = "0x06fdde03", "0x95d89b41", "0x313ce567"
_QUESTIONS: Final = (_NAME, _SYMBOL, _DECIMALS)
_WORD: Final = 32
_MAX_DECIMALS: Final = 255
_LONGEST: Final = 100
_DELEGATED: Final = "0xef0100"
"""First bytes, in hexadecimal, of the code of a wallet that delegates to a contract (EIP-7702). It counts as a
wallet."""


async def described(node: Node, tokens: Sequence[TokenInfo]) -> list[TokenInfo]:
    """Return the tokens with the name, symbol and decimals that their contracts report.

    Values that a contract does not report stay unchanged. Raises ``RpcError``.
    """
    calls = [eth_call(token.address, question) for token in tokens for question in _QUESTIONS]
    answers = await _all(node, calls)
    return [
        _described(token, *token_answers)
        for token, token_answers in zip(tokens, parts(answers, len(_QUESTIONS)), strict=True)
    ]


async def decimals(node: Node, tokens: Sequence[TokenInfo]) -> list[int | None]:
    """Return the decimals that the contracts of tokens report, None where one reports none. Raises ``RpcError``."""
    answers = await _all(node, [eth_call(token.address, _DECIMALS) for token in tokens])
    return [
        decimals_of(answer) if token.standard == "erc20" else 0 for token, answer in zip(tokens, answers, strict=True)
    ]


async def contracts(node: Node, chain: str, addresses: Iterable[str]) -> list[Label]:
    """Return a label for each of the addresses that is a contract at the newest block. Raises ``RpcError``."""
    address_list = list(addresses)
    answers = await _all(node, [code(address) for address in address_list])
    return [
        Label(address, chain, SOURCE, is_contract=True)
        for address, contract_code in zip(address_list, answers, strict=True)
        if contract_code and contract_code != "0x" and not contract_code.startswith(_DELEGATED)
    ]


async def _all(node: Node, calls: Sequence[Call]) -> list[str | None]:
    answers: list[str | None] = []
    for part in parts(calls, node.batch):
        answers += await node.ask(part, list)
    return answers


def _described(token: TokenInfo, name: str | None, symbol: str | None, decimals: str | None) -> TokenInfo:
    own_name, own_symbol = text_of(name), text_of(symbol)
    places = decimals_of(decimals) if token.standard == "erc20" else 0
    return replace(
        token,
        name=own_name or own_symbol or token.name,
        symbol=own_symbol or own_name or token.symbol,
        decimals=token.decimals if places is None else places,
        is_assumed=token.is_assumed and places is None,
    )


def text_of(answer: str | None) -> str | None:
    """Return the text in a contract's answer to a call; None if it is invalid. The answer is a string, or 32 bytes in
    early tokens."""
    raw = _bytes(answer)
    if len(raw) == _WORD:
        return _clean(raw.rstrip(b"\0"))
    if len(raw) < 2 * _WORD:
        return None
    start = int.from_bytes(raw[:_WORD], "big")
    if start + _WORD > len(raw):
        return None
    length = int.from_bytes(raw[start : start + _WORD], "big")
    return _clean(raw[start + _WORD : start + _WORD + length])


def decimals_of(answer: str | None) -> int | None:
    """Return the decimals in a contract's answer; None if the answer is invalid."""
    raw = _bytes(answer)
    places = int.from_bytes(raw[:_WORD], "big") if len(raw) >= _WORD else None
    return places if places is not None and places <= _MAX_DECIMALS else None


def _bytes(answer: str | None) -> bytes:
    try:
        return bytes.fromhex((answer or "").removeprefix("0x"))
    except ValueError:
        return b""


def _clean(raw: bytes) -> str | None:
    """Return bytes as printable text in one line of limited length; None if nothing printable remains."""
    text = raw.decode("utf-8", "ignore")
    words = "".join(letter if letter.isprintable() else " " for letter in text).split()
    return " ".join(words)[:_LONGEST].strip() or None
