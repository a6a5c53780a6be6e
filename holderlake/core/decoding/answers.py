"""Decode JSON answers of each endpoint into Arrow tables.

The functions here start from JSON bytes. Their tables equal those that the engine computes for the same request,
without the column ``fetched_at``. Several answers are decoded together, which is faster. An answer with an invalid
value is decoded alone in the lenient mode: every readable row is kept, and unreadable values are listed with their JSON
path. Each function raises ``MalformedAnswer`` if an answer cannot be parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, Final

import msgspec
import pyarrow as pa

from holderlake.core.contract.chains import normalise_address
from holderlake.core.contract.exact_json import MalformedAnswer
from holderlake.core.contract.models import AddressMetadata, Chain, GroupedTransfer, Holder, Map, Token
from holderlake.core.contract.tables import INSTANT_TYPE, MISSING_CONTENT, TABLES, assemble, columns_of_model
from holderlake.core.decoding import lenient
from holderlake.core.decoding.lenient import UNREADABLE_ROW, UNREADABLE_VALUE, Unreadable, is_older_map
from holderlake.core.decoding.missing import missing_blocks, missing_fields, missing_holders, unnamed
from holderlake.core.decoding.structs import shape_of
from holderlake.core.decoding.tables import Common, TokenColumn, holders_table, maps_tables, rows_of
from holderlake.core.decoding.transfers import Transfers, distinct

Tables = dict[str, pa.Table]
_OfTokens = Callable[[Iterable[Any], Sequence[str], bool], Tables]
"""Function that makes tables, by name, from (structs of answers, token of each answer, ``lenient``).

``lenient`` is true if the structs come from the lenient mode.
"""

PARTIAL: Final = frozenset({UNREADABLE_ROW, UNREADABLE_VALUE, MISSING_CONTENT})
"""Codes of failures about a part of an answer. The rest of the answer is in the lake."""

_Lacks = Callable[[Any], Iterable[Unreadable]]
"""Function that yields the blocks that an answer (a struct) lacks."""

_DECODE_ERRORS: Final = (msgspec.DecodeError, ValueError, TypeError, ArithmeticError, RecursionError)
"""Errors of the fast decoder. If one is raised, the answer is decoded again in the lenient mode."""


@dataclass(frozen=True)
class Decoded:
    """The tables of answers by name, and the rows, values and content that could not be read or are missing."""

    tables: Tables
    unreadable: Sequence[Unreadable] = ()


def parse(raw: bytes, shape: Any) -> Any:
    """Decode an answer's JSON bytes as the struct of ``shape``, a model, or as a list of structs.

    Raises ``msgspec.DecodeError`` or ``ValueError`` if a value has another type, or the bytes are not JSON.
    """
    return _decoder(shape).decode(raw)


@cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape_of(shape))


def map_tables(raws: Sequence[bytes], chain: str, token_addresses: Sequence[str], as_of: datetime) -> Decoded:
    """Decode maps into the five tables of maps by name. ``raws[i]`` is of ``token_addresses[i]``.

    The rows of a token are in the order of its answer; between them there may be rows of other tokens.
    """
    common = _common(as_of, chain=chain)

    def build(answers: Iterable[Any], tokens: Sequence[str], is_lenient: bool) -> Tables:
        return maps_tables(answers, TokenColumn(tokens), common, is_lenient)

    return _decoded(raws, token_addresses, Map, chain, build, missing_blocks)


def holder_rows(raws: Sequence[bytes], chain: str, token_addresses: Sequence[str], as_of: datetime) -> Decoded:
    """Decode lists of holders into the table ``holders``. ``raws[i]`` is of ``token_addresses[i]``."""
    common = _common(as_of, chain=chain)

    def build(answers: Iterable[Any], tokens: Sequence[str], is_lenient: bool) -> Tables:
        return {"holders": holders_table([*answers], TokenColumn(tokens), common)}

    return _decoded(raws, token_addresses, list[Holder], chain, build, missing_holders)


def subgraph_rows(raws: Sequence[bytes], chain: str, address_sets: Sequence[str], as_of: datetime) -> Decoded:
    """Decode the answers about one address set into the table ``subgraph_transfers``.

    A large set needs several requests, so two answers may contain the same relationship; it gets one row.
    ``address_sets`` has exactly one name.
    """
    (address_set,) = address_sets
    common = _common(chain=chain, as_of=as_of, address_set=address_set)

    def build(answers: Sequence[Any], is_lenient: bool) -> Tables:
        transfers = Transfers()
        transfers.add(distinct(answers), lenient=is_lenient)
        (count,) = transfers.counts
        return {"subgraph_transfers": assemble(TABLES["subgraph_transfers"], count, common, transfers.columns())}

    return _merged_answers(raws, list[GroupedTransfer], build)


def list_rows(table: str, item: type) -> Callable[[Sequence[bytes], str, Sequence[str], datetime], Decoded]:
    """Return a function that decodes answers which are lists of the model ``item`` into a table.

    The columns are those of the model, ``chain`` and ``as_of``; ``token_address`` is the subject of the answers,
    if the table has it and the model does not.
    """
    is_about_token = "token_address" in TABLES[table].schema.names
    has_token = any(field.name == "token_address" for field in columns_of_model(item))

    def decode(raws: Sequence[bytes], chain: str, subjects: Sequence[str], as_of: datetime) -> Decoded:
        common = _common(chain=chain, as_of=as_of)
        if is_about_token and not has_token:
            (token,) = subjects
            common["token_address"] = pa.scalar(normalise_address(token))

        def build(answers: Sequence[Any], is_lenient: bool) -> Tables:
            return {table: rows_of(table, item, [row for answer in answers for row in answer], common)}

        return _merged_answers(raws, list[item], build)  # type: ignore[valid-type] # a model, for msgspec

    decode.__qualname__ = f"list_rows of {table}"  # answers of one decoder are decoded together
    return decode


address_rows: Final = list_rows("addresses", AddressMetadata)
"""Decoder of the metadata of addresses."""


def token_rows(raws: Sequence[bytes], chain: str, token_addresses: Sequence[str], as_of: datetime) -> Decoded:
    """Decode the metadata of tokens into the table ``tokens``. Tokens that were not requested are left out."""
    requested_addresses = {normalise_address(address) for address in token_addresses}

    def build(answers: Sequence[Any], is_lenient: bool) -> Tables:
        tokens = [
            token
            for answer in answers
            for token in answer
            if token.token_key.chain == chain and normalise_address(token.token_key.address) in requested_addresses
        ]
        return {"tokens": rows_of("tokens", Token, tokens, _common(as_of))}

    return _merged_answers(raws, list[Token], build)


def chain_rows(raws: Sequence[bytes], chain: str | None, chains: Sequence[str], as_of: datetime) -> Decoded:
    """Decode the list of chains into the table ``chains``, or only the row of ``chain``. ``chains`` is not used."""

    def build(answers: Sequence[Any], is_lenient: bool) -> Tables:
        chain_list = [listed_chain for answer in answers for listed_chain in answer if chain in (None, listed_chain.id)]
        return {"chains": rows_of("chains", Chain, chain_list, _common(as_of))}

    return _merged_answers(raws, list[Chain], build)


def _common(as_of: datetime, **texts: str) -> Common:
    return {"as_of": pa.scalar(as_of, INSTANT_TYPE)} | {name: pa.scalar(text) for name, text in texts.items()}


def _decoded(
    raws: Sequence[bytes], tokens: Sequence[str], shape: Any, chain: str, build: _OfTokens, lacks: _Lacks
) -> Decoded:
    """Decode one answer for each token with the fast decoder. If it fails, decode each answer in the lenient mode.

    ``shape`` is the type of an answer's struct; ``build`` makes the tables from structs. ``lacks`` yields the blocks
    that an answer lacks.
    """

    def tables_of(answers: Iterable[Any], is_lenient: bool) -> tuple[Tables, list[Unreadable]]:
        missing: list[Unreadable] = []

        def noted() -> Iterator[Any]:
            for place, answer in enumerate(answers):
                missing.extend(replace(note, answer=place) for note in lacks(answer))
                yield answer

        tables = build(noted(), tokens, is_lenient)
        return tables, [*missing, *missing_fields(tables, tokens)]

    try:
        return Decoded(*tables_of((parse(raw, shape) for raw in raws), False))
    except _DECODE_ERRORS:
        if len(raws) > 1:
            pairs = zip(raws, tokens, strict=True)
            alone = [_decoded([raw], [token], shape, chain, build, lacks) for raw, token in pairs]
            tables = {name: pa.concat_tables(decoded.tables[name] for decoded in alone) for name in alone[0].tables}
            notes = [replace(note, answer=k) for k, decoded in enumerate(alone) for note in decoded.unreadable]
            return Decoded(tables, notes)

    def decode_leniently() -> Decoded:
        answer, unreadable = lenient.read(raws[0], shape, chain)
        tables, missing = tables_of([answer], True)
        if is_older_map(raws[0]):
            return Decoded(tables, unreadable)
        return Decoded(tables, [*unreadable, *unnamed(missing, unreadable)])

    return _leniently(decode_leniently)


def _merged_answers(raws: Sequence[bytes], shape: Any, build: Callable[[Sequence[Any], bool], Tables]) -> Decoded:
    """Decode several answers about the same subject into one set of tables, leniently if the fast decoder fails.

    ``shape`` is the type of an answer's struct; ``build`` makes the tables from structs and the flag ``lenient``.
    """
    try:
        tables = build([parse(raw, shape) for raw in raws], False)
        return Decoded(tables, [*missing_fields(tables)])
    except _DECODE_ERRORS:
        pass

    def decode_leniently() -> Decoded:
        answers, unreadable = [], []
        for place, raw in enumerate(raws):
            try:
                answer, notes = lenient.read(raw, shape)
            except MalformedAnswer as error:
                error.answer = place
                raise
            answers.append(answer)
            unreadable += [replace(note, answer=place) for note in notes]
        tables = build(answers, True)
        return Decoded(tables, [*unreadable, *unnamed([*missing_fields(tables)], unreadable)])

    return _leniently(decode_leniently)


def _leniently(decode: Callable[[], Decoded]) -> Decoded:
    """Call ``decode`` and turn any error into ``MalformedAnswer``, because an answer's content must not end a run."""
    try:
        return decode()
    except MalformedAnswer:
        raise
    except _DECODE_ERRORS as error:
        raise MalformedAnswer(f"the answer has a value that does not fit its column: {error}") from error


def chain_ids(raw: bytes, fetched_at: datetime) -> list[str]:
    """Return the ids of the chains in the bytes of an answer. Raises ``MalformedAnswer`` if it cannot be decoded."""
    return [str(chain) for chain in chain_rows([raw], None, (), fetched_at).tables["chains"]["chain"].to_pylist()]
