"""The relationships of some answers as columns: structs are read once, column by column, and may go then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter

from contract.chains import normalise_address
from contract.models import GROUPED_TRANSFER, Address, ChainId
from resources.columns import Integers, amounts_of, dates_of, refuse_twice_coded

_NO_CODES: Final = np.empty(0, np.int64)
_LINK_KEYS: Final = {
    "from_address": "address",
    "to_address": "address",
    "transfer_chain": "transfer_chain",
    "transfer_token": "transfer_token",
}
"""What tells relationships of an answer apart, and whose texts each part is."""

_chain: Final = TypeAdapter(ChainId).validate_python
_token: Final = TypeAdapter(Address).validate_python


class _Codes(dict[str, int]):
    """Numbers of texts as a rule writes them: the same for texts that it writes alike, in the order of their coming."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        self._rule = rule
        self._of_written: dict[str, int] = {}

    def __missing__(self, text: str) -> int:
        code = self[text] = self._of_written.setdefault(self._rule(text), len(self._of_written))
        return code

    def of(self, texts: list[str]) -> Integers:
        """The numbers of texts."""
        if texts and texts.count(texts[0]) == len(texts):  # as the tokens of a map's relationships often are
            return np.full(len(texts), self[texts[0]])
        return np.fromiter(map(self.__getitem__, texts), np.int64, len(texts))

    def array(self, codes: Sequence[Integers]) -> pa.Array:
        """The texts behind numbers."""
        return pa.array([*self._of_written], pa.string()).take(pa.array(np.concatenate([*codes, _NO_CODES])))


class Links:
    """The relationships of some answers. What they were read from may go when they are added."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        """Of each answer."""
        self._windows: list[Integers] = []
        self._books = {
            "address": _Codes(normalise_address),
            "transfer_chain": _Codes(_chain),
            "transfer_token": _Codes(_token),
        }
        self._keys: dict[str, list[Integers]] = {name: [] for name in _LINK_KEYS}
        self._numbers: dict[str, list[Integers]] = {"total_transfers": [], "first_date": [], "last_date": []}
        self._values: list[bytes] = []

    def add(self, told: Sequence[Any], time_nodes: Sequence[Any] = ()) -> None:
        """Adds an answer's. Raises ``ValueError`` where one stands there twice."""
        groups = [told, *(node.relationships for node in time_nodes)]
        links = [link for group in groups for link in group]
        data = [link.data for link in links]
        tokens = [each.token_key for each in data]
        windows = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        keys = {
            "from_address": self._books["address"].of([link.from_address for link in links]),
            "to_address": self._books["address"].of([link.to_address for link in links]),
            "transfer_chain": self._books["transfer_chain"].of([token.chain for token in tokens]),
            "transfer_token": self._books["transfer_token"].of([token.address for token in tokens]),
        }
        refuse_twice_coded({"window": windows} | keys)
        for name, codes in keys.items():
            self._keys[name].append(codes)
        for name, known in self._numbers.items():
            known.append(np.fromiter(map(attrgetter(name), data), np.int64, len(data)))
        self._values += [bytes(each.total_value) for each in data]
        self._windows.append(windows)
        self.counts.append(len(links))

    @property
    def windows(self) -> Integers:
        """The number of each one's time node; 0 outside of them."""
        return np.concatenate([*self._windows, _NO_CODES])

    def columns(self) -> dict[str, pa.Array]:
        """All columns but the token and the time node that they stand under."""
        texts = {name: self._books[_LINK_KEYS[name]].array(codes) for name, codes in self._keys.items()}
        numbers = {name: pa.array(np.concatenate([*known, _NO_CODES])) for name, known in self._numbers.items()}
        return texts | {
            "rel_type": pa.repeat(GROUPED_TRANSFER, len(self._values)),
            "total_transfers": numbers["total_transfers"],
            "first_date": dates_of(numbers["first_date"]),
            "last_date": dates_of(numbers["last_date"]),
            **amounts_of("total_value", self._values),
        }
