"""The relationships of some answers as columns: structs are read once, column by column, and may go then.

What costs is what is done for each row in Python, and each small call that lets another thread have the interpreter.
So the texts of a column are put together as they stand and taken apart by Arrow, for all answers at once, and only the
distinct ones are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter

from contract.models import GROUPED_TRANSFER, Address, ChainId, TokenKey
from resources.columns import Integers, amounts_of, apart, dates_of, refuse_twice_coded, together, written
from resources.shapes import read

_NO_NUMBERS: Final = np.empty(0, np.int64)
_read_strings: Final = msgspec.json.Decoder(list[str]).decode
_chain: Final = TypeAdapter(ChainId).validate_python
_token: Final = TypeAdapter(Address).validate_python


class Links:
    """The relationships of some answers. What they were read from may go when they are added."""

    def __init__(self) -> None:
        self._sizes: list[list[int]] = []
        """Of each answer: how many stand outside time nodes, and in each of them."""
        self._texts: dict[str, list[bytes]] = {"from_address": [], "to_address": [], "token_key": [], "total_value": []}
        self._numbers: dict[str, list[Integers]] = {"total_transfers": [], "first_date": [], "last_date": []}

    def add(self, told: Sequence[Any], time_nodes: Sequence[Any] = ()) -> None:
        """Adds an answer's."""
        groups = [told, *(node.relationships for node in time_nodes)]
        links = [link for group in groups for link in group]
        self._sizes.append([len(group) for group in groups])
        if not links:
            return
        data = [link.data for link in links]
        self._texts["from_address"].append(together([link.from_address for link in links]))
        self._texts["to_address"].append(together([link.to_address for link in links]))
        self._texts["token_key"].append(together([each.token_key for each in data]))
        self._texts["total_value"].append(together([each.total_value for each in data]))
        self._numbers["total_transfers"].append(_integers([each.total_transfers for each in data]))
        self._numbers["first_date"].append(_integers([each.first_date for each in data]))
        self._numbers["last_date"].append(_integers([each.last_date for each in data]))

    @property
    def counts(self) -> list[int]:
        """How many there are of each answer."""
        return [sum(sizes) for sizes in self._sizes]

    @property
    def windows(self) -> Integers:
        """The number of each one's time node; 0 outside of them."""
        numbers = [number for sizes in self._sizes for number in range(len(sizes))]
        return np.repeat(np.array(numbers, np.int64), [size for sizes in self._sizes for size in sizes])

    def columns(self) -> dict[str, pa.Array]:
        """All columns but the token and the time node that they stand under.

        Raises ``ValueError`` where one stands in an answer twice, and ``msgspec.DecodeError``.
        """
        count = sum(self.counts)
        ends, (senders, receivers) = _coded([*self._texts["from_address"], *self._texts["to_address"]], count, 2)
        tokens, (moved,) = _coded(self._texts["token_key"], count)
        keys = [read(raw, TokenKey) for raw in tokens]
        addresses = _Distinct(written(_strings(ends)))
        chains = _Distinct(_chain(key.chain) for key in keys)
        contracts = _Distinct(_token(key.address) for key in keys)
        codes = {
            "from_address": addresses.codes[senders],
            "to_address": addresses.codes[receivers],
            "transfer_chain": chains.codes[moved],
            "transfer_token": contracts.codes[moved],
        }
        answers = np.repeat(np.arange(len(self._sizes)), self.counts)
        refuse_twice_coded({"answer": answers, "window": self.windows} | codes)
        numbers = {name: pa.array(np.concatenate([*known, _NO_NUMBERS])) for name, known in self._numbers.items()}
        return {
            "from_address": addresses.array(codes["from_address"]),
            "to_address": addresses.array(codes["to_address"]),
            "transfer_chain": chains.array(codes["transfer_chain"]),
            "transfer_token": contracts.array(codes["transfer_token"]),
            "rel_type": pa.repeat(GROUPED_TRANSFER, count),
            "total_transfers": numbers["total_transfers"],
            "first_date": dates_of(numbers["first_date"]),
            "last_date": dates_of(numbers["last_date"]),
            **amounts_of("total_value", apart(self._texts["total_value"], count).cast(pa.string())),
        }


class _Distinct:
    """Texts without those that came before, and the number of each among them."""

    def __init__(self, texts: Iterable[str]) -> None:
        numbers: dict[str, int] = {}
        self.codes = np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)
        self._texts = pa.array([*numbers], pa.string())

    def array(self, codes: Integers) -> pa.Array:
        """The texts behind numbers."""
        return self._texts.take(pa.array(codes))


def _integers(values: Sequence[int]) -> Integers:
    return np.fromiter(values, np.int64, len(values))


def _coded(pieces: Sequence[bytes], count: int, columns: int = 1) -> tuple[list[bytes], list[Integers]]:
    """The distinct texts of some columns of ``count`` rows, and of each column the number of each row's text."""
    texts = apart(pieces, columns * count).dictionary_encode()
    return texts.dictionary.to_pylist(), np.split(texts.indices.to_numpy(), columns)


def _strings(raws: Sequence[bytes]) -> list[str]:
    """What JSON strings say. Raises ``msgspec.DecodeError`` where one of them is none."""
    return _read_strings(b"[%b]" % b",".join(raws))
