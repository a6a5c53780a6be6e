"""Transfers, labels and small stores for the tests of the engine.

Addresses are opaque to the engine, so here they are plain names. ``mint`` and ``burn`` mean the zero address, ``dead``
the best-known burn address. Tokens have no decimals unless a test sets them, so that amounts equal raw values.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.rules import Rules
from holderlake.core.contract.times import from_unix
from holderlake.engine.maps.maps import map_as_of
from holderlake.engine.queries.balances import balances_as_of
from holderlake.engine.queries.holders import holders_as_of
from holderlake.engine.records import TRANSFERS, Label, TokenInfo
from holderlake.engine.store.store import Store
from tests.helpers.amounts import exact_amount
from tests.helpers.examples import some

Row = dict[str, Any]
Key = tuple[str, str]

COIN: Key = ("eth", "coin")
END = 10**9
"""A second after all transfers of the tests' worlds."""

DEAD = "0x000000000000000000000000000000000000dead"
_SPECIAL = {"mint": ZERO_ADDRESS, "burn": ZERO_ADDRESS, "dead": DEAD}
_numbers = count(1)
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where there is one, fsync costs nothing

NAMES = ("a", "b", "c", "d", "e", "f")
UINT256 = 2**256 - 1


def settled(examples: int) -> settings:
    """Hypothesis settings: the same examples in every run, and no clock."""
    return settings(max_examples=some(examples), deadline=None, derandomize=True, database=None)


# ---------------------------------------------------------------------- describing a world


def transfer(path: str, value: int = 1, at: int = 1, *, token: Key = COIN, **changed: Any) -> Row:
    """A transfer such as ``transfer("mint -> a", 100, at=5)``, in a new transaction unless ``tx_hash`` is given."""
    sender, receiver = (_SPECIAL.get(name, name) for name in path.split(" -> "))
    row: Row = {
        "chain": token[0],
        "token_address": token[1],
        "token_standard": "erc20",
        "from_address": sender,
        "to_address": receiver,
        "value": str(value),
        "token_id": None,
        "block_number": at,
        "block_time": at,
        "tx_hash": f"tx-{next(_numbers)}",
        "log_index": 0,
        "time_kind": "exact",
        "log_index_kind": "exact",
        "source": "test",
    }
    assert set(changed) <= set(row)
    return row | changed


def table(rows: Iterable[Row]) -> pa.Table:
    """The transfers as the store takes them."""
    return pa.Table.from_pylist(list(rows), schema=TRANSFERS)


def a_token(key: Key, **changed: Any) -> TokenInfo:
    """Metadata of a token: named like its address, without decimals."""
    plain: dict[str, Any] = {"name": key[1], "symbol": key[1], "decimals": 0}
    return TokenInfo(*key, **plain | changed)


def cex(address: str) -> Label:
    return Label(address, None, "test", name=f"exchange {address}", is_cex=True)


def dex(address: str) -> Label:
    return Label(address, None, "test", name=f"pool {address}", is_dex=True, is_contract=True)


def contract(address: str) -> Label:
    return Label(address, None, "test", name=f"contract {address}", is_contract=True)


@contextmanager
def world(
    *transfers: Row, tokens: Iterable[TokenInfo] = (), labels: Sequence[Label] = (), rules: Rules | None = None
) -> Iterator[Store]:
    """A temporary store with the transfers, for the block."""
    given = {(token.chain, token.address): token for token in tokens}
    moved = {(row["chain"], row["token_address"]) for row in transfers}
    with TemporaryDirectory(dir=_MEMORY) as folder, Store(Path(folder), rules) as store:
        store.add_tokens([*given.values(), *(a_token(key) for key in sorted(moved - set(given)))])
        if labels:
            store.add_labels(labels)
        if transfers:
            store.add_transfers(table(transfers), "test")
        yield store


# ---------------------------------------------------------------------- its answers


def holders(store: Store, at: int = END, token: Key = COIN, limit: int = END) -> list[tuple[str, int]]:
    """(address, raw amount) by rank, from the holders table."""
    rows = holders_as_of(store, *token, from_unix(at), limit).to_pylist()
    known = store.token(*token)
    return [(row["address"], int(exactly(row, "amount") * 10**known.decimals)) for row in rows]


def held(store: Store, at: int = END, token: Key = COIN) -> dict[str, int]:
    """Every balance other than zero, also negative ones."""
    balances = balances_as_of(store, *token, from_unix(at))
    return dict([*balances.holders, *balances.negative])


def draw(store: Store, at: int = END, token: Key = COIN, **options: Any) -> dict[str, list[Row]]:
    """The map's five tables as rows. ``limit`` may be any number here, to keep worlds small."""
    chosen = MapOptions.model_construct(**options)
    tables = map_as_of(store, *token, from_unix(at), chosen, from_unix(END))
    return {name: rows.to_pylist() for name, rows in tables.items()}


def nodes(drawn: dict[str, list[Row]], kind: str) -> list[str]:
    """Addresses of a map's nodes of a kind, in their order."""
    return [row["address"] for row in drawn["map_nodes"] if row["kind"] == kind]


def links(drawn: dict[str, list[Row]], time_node: int | None = None) -> list[str]:
    """A map's relationships as ``a -> b``: those between its nodes, or those of one time node."""
    return [
        f"{row['from_address']} -> {row['to_address']}"
        for row in drawn["grouped_transfers"]
        if row["time_node"] == time_node
    ]


def clusters(drawn: dict[str, list[Row]], kind: str = "holder") -> list[set[str]]:
    """The members of each cluster, the largest cluster first."""
    return [
        {
            row["address"]
            for row in drawn["cluster_members"]
            if row["cluster_id"] == cluster["cluster_id"] and row["kind"] == kind
        }
        for cluster in drawn["clusters"]
    ]


def figures(drawn: dict[str, list[Row]]) -> Row:
    """The one row of a map's metrics."""
    (row,) = drawn["maps"]
    return row


def exactly(row: Row, name: str) -> Fraction | None:
    """An amount of a table, exact."""
    amount = exact_amount(row, name)
    return None if amount is None else Fraction(amount)


# ---------------------------------------------------------------------- random histories


_values = st.one_of(st.integers(0, 20), st.integers(0, UINT256), st.just(UINT256))
_seconds = st.integers(1, 100)


@st.composite
def histories(draw: st.DrawFn) -> list[Row]:
    """Any history of one token, also with senders whose balance is too small."""
    senders, receivers = st.sampled_from(("mint", *NAMES)), st.sampled_from(("burn", *NAMES))
    moves = draw(st.lists(st.tuples(senders, receivers, _values, _seconds), min_size=1, max_size=30))
    return [transfer(f"{sender} -> {receiver}", value, at) for sender, receiver, value, at in moves]
