"""Columns of relationships (mostly grouped transfers) from decoded structs. ``tables`` makes the tables of them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holderlake.core.contract.models import GROUPED_TRANSFER, GroupedTransferData, TokenKey
from holderlake.core.decoding.columns import amounts_of, dates_of, integers_of, joined_texts, normalised, split
from holderlake.core.decoding.structs import RAW_KINDS, UnknownTransfer, stored_fields, struct_of

Integers = npt.NDArray[np.int64]

_ENDS: Final = ("from_address", "to_address")
_FIELDS: Final = stored_fields(GroupedTransferData)
_TEXTS: Final = tuple(field.name for field in _FIELDS if field.kind in RAW_KINDS)
_NUMBERS: Final = tuple(field.name for field in _FIELDS if field.kind not in RAW_KINDS)
_read_strings: Final = msgspec.json.Decoder(list[str]).decode
_read_key: Final = msgspec.json.Decoder(struct_of(TokenKey) | None).decode


class Transfers:
    """Builder of the columns of relationships, for the relationships of several answers.

    ``add`` reads the structs of one answer, which may be freed afterwards. ``columns`` then splits the texts of all
    answers in one step with Arrow, and decodes each distinct text once.
    """

    def __init__(self) -> None:
        self._sizes: list[list[int]] = []
        """For each answer: the number of relationships of no time node, then the number of each time node."""
        self._texts: dict[str, list[bytes]] = {name: [] for name in (*_ENDS, *_TEXTS)}
        self._numbers: dict[str, list[pa.Array]] = {name: [] for name in _NUMBERS}
        self._unknown: dict[int, UnknownTransfer] = {}

    def add(self, outside: Sequence[Any], time_nodes: Sequence[Any] = (), lenient: bool = False) -> None:
        """Add an answer's relationships: those of no time node (``outside``), then those of each time node.

        Only an answer from the ``lenient`` mode may have relationships of unknown types.
        """
        groups = [outside, *(node.relationships or () for node in time_nodes)]
        links = [link for group in groups for link in group]
        if lenient:
            start = sum(self.counts)
            unknown = ((place, link) for place, link in enumerate(links, start) if isinstance(link, UnknownTransfer))
            self._unknown |= dict(unknown)
        self._sizes.append([len(group) for group in groups])
        if not links:
            return
        data = [link.data for link in links]
        for name in _ENDS:
            self._texts[name].append(joined_texts(map(attrgetter(name), links)))
        for name in _TEXTS:
            self._texts[name].append(joined_texts(map(attrgetter(name), data)))
        for name in _NUMBERS:
            self._numbers[name].append(integers_of([*map(attrgetter(name), data)]))

    @property
    def counts(self) -> list[int]:
        """Number of relationships of each answer, including those in time nodes."""
        return [sum(sizes) for sizes in self._sizes]

    @property
    def windows(self) -> Integers:
        """Number of the time node (from 1) of each relationship, 0 if it is of no time node; shape (relationships,)."""
        numbers = [number for sizes in self._sizes for number in range(len(sizes))]
        return np.repeat(np.array(numbers, np.int64), [size for sizes in self._sizes for size in sizes])

    def columns(self) -> dict[str, pa.Array]:
        """Return the columns of all relationships by name, except ``token_address`` and ``time_node``.

        Raises ``ValueError`` or ``msgspec.DecodeError`` for a value that a column cannot store.
        """
        count = sum(self.counts)
        ends, (senders, receivers) = _dictionary([*self._texts["from_address"], *self._texts["to_address"]], count, 2)
        tokens, (token_indices,) = _dictionary(self._texts["token_key"], count)
        keys = [_token(raw) for raw in tokens]
        addresses = pa.array(normalised(_strings(ends)), pa.string())
        chains, contracts = (pa.array([key[part] for key in keys], pa.string()) for part in (0, 1))
        columns = {
            "from_address": addresses.take(senders),
            "to_address": addresses.take(receivers),
            "transfer_chain": chains.take(token_indices),
            "transfer_token": contracts.take(token_indices),
            **self._types(count),
        }
        for field in _FIELDS:
            if field.kind == "amount":
                columns |= amounts_of(field.column, split(self._texts[field.name], count).cast(pa.string()))
            elif field.name in _NUMBERS:
                numbers = pa.concat_arrays([*self._numbers[field.name], pa.array([], pa.int64())])
                columns[field.column] = dates_of(numbers) if field.kind == "unix seconds" else numbers
        return columns

    def _types(self, count: int) -> dict[str, pa.Array]:
        if not self._unknown:
            return {"rel_type": pa.repeat(GROUPED_TRANSFER, count), "unknown_data": pa.nulls(count, pa.string())}
        links = [self._unknown.get(place) for place in range(count)]
        return {
            "rel_type": pa.array([link.rel_type if link else GROUPED_TRANSFER for link in links]),
            "unknown_data": pa.array([link.unknown_data if link else None for link in links], pa.string()),
        }


def _token(raw: bytes) -> tuple[str | None, str | None]:
    key = _read_key(raw)
    if key is None:
        return None, None
    if not key.chain.strip():
        raise ValueError(f"the chain of the token key {raw!r} is empty")
    return key.chain, *normalised([key.address])


def distinct(answers: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Return the relationships of all answers, without those that an earlier answer already has.

    Repetitions within one answer stay. Two relationships of an unknown type are equal if their data are equal.
    """
    if len(answers) == 1:
        return answers[0]
    links: list[Any] = []
    earlier: set[Any] = set()
    for answer in answers:
        keyed_links = [(_identity(link), link) for link in answer]
        links += [link for name, link in keyed_links if name not in earlier]
        earlier.update(name for name, _ in keyed_links)
    return links


def _identity(link: Any) -> tuple[Any, ...]:
    ends = (_address_of(link.from_address), _address_of(link.to_address))
    is_unknown = isinstance(link, UnknownTransfer)
    return (*ends, link.rel_type, link.unknown_data if is_unknown else bytes(link.data.token_key))


def _address_of(raw: msgspec.Raw) -> bytes:
    text = bytes(raw)
    return text.lower() if text[1:3].lower() == b"0x" else text


def _dictionary(pieces: Sequence[bytes], count: int, columns: int = 1) -> tuple[list[bytes], list[pa.Array]]:
    """Split joined texts into ``columns`` columns of ``count`` rows, and encode them as a dictionary.

    Returns the distinct texts, and for each column an array of indices into them.
    """
    texts = split(pieces, columns * count).dictionary_encode()
    return texts.dictionary.to_pylist(), [texts.indices.slice(count * column, count) for column in range(columns)]


def _strings(raws: Sequence[bytes]) -> list[str]:
    """Decode JSON strings. Raises ``msgspec.DecodeError`` if one of them is not a string."""
    return _read_strings(b"[%b]" % b",".join(raws))
