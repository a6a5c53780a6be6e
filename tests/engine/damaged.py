"""A store with every kind of file, and its answers, which damage must not change."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.rules import Rules
from holderlake.core.contract.times import from_unix
from holderlake.engine.catalog.catalog_copy import CATALOG, COPY
from holderlake.engine.catalog.opening_balances import OPENING_BALANCES
from holderlake.engine.errors import UnusableStore
from holderlake.engine.maps.evidence import cluster_evidence
from holderlake.engine.store.store import Store
from tests.engine.world import COIN, END, Row, a_token, cex, dex, draw, holders, table, transfer

OTHER = ("eth", "other")
WINDOW = ("bsc", "window")
NEW = ("eth", "new")
TOKENS = (COIN, OTHER, WINDOW)
AT = (40 * 86_400, END)


def fill(root: Path) -> None:
    """Make a store in several imports: bases, tails, several runs and volumes, replaced files, opening balances."""
    rng = Random(5)
    with Store(root, Rules(supernode_degree=30)) as store:
        store.add_tokens([a_token(COIN, name="Coin", decimals=2), a_token(OTHER, is_indexed=True)])
        store.add_labels([cex("w3"), dex("w5")])
        opening = {"chain": "bsc", "token_address": "window", "block_number": 0, "block_time": 1}
        rows = [opening | {"address": f"w{number}", "balance": str(10 + number)} for number in range(20)]
        store.add_opening_balances(pa.Table.from_pylist(rows, OPENING_BALANCES))
        for day, count in ((1, 150), (20, 12), (30, 12), (50, 12)):
            store.add_transfers(table(row for token in TOKENS for row in moves(rng, token, day, count)), f"day {day}")


def moves(rng: Random, token: tuple[str, str], day: int, count: int) -> list[Row]:
    """Transfers of a day among 40 wallets."""

    def one(number: int) -> Row:
        sender = "mint" if number % 3 == 0 else f"w{rng.randrange(40)}"
        second = 86_400 * day + number
        return transfer(f"{sender} -> w{rng.randrange(40)}", rng.randint(1, 9_999), second, token=token)

    return [one(number) for number in range(count)]


def answers(store: Store, tokens: tuple[tuple[str, str], ...] = TOKENS) -> dict[str, Any]:
    """Every kind of answer about the tokens."""
    found: dict[str, Any] = {"tokens": [store.token(*key) for key in tokens], "indexed": store.indexed_tokens()}
    for key in tokens:
        for at in AT:
            found[f"holders {key} {at}"] = holders(store, at, key)
            found[f"map {key} {at}"] = draw(store, at, key, limit=20)
        evidence = cluster_evidence(store, *key, from_unix(END), MapOptions(), None, 50)
        found[f"evidence {key}"] = {name: rows.to_pylist() for name, rows in evidence.items()}
    found["labels"] = store.labels(["w3", "w5", "w7"])
    return found


def copied(root: Path, to: Path) -> Path:
    """A copy of a store's folder with the times of its files."""
    return Path(shutil.copytree(root, to))


def files_of(root: Path) -> list[Path]:
    """All files of a store."""
    return sorted(path for path in root.rglob("*") if path.is_file())


def outcome(root: Path, expected: dict[str, Any]) -> str:
    """Open a store, import a file and ask everything: ``right``, or ``refused`` with a reason. Wrong answers fail."""
    try:
        with Store(root) as store:
            assert answers(store) == expected
            store.add_transfers(table([transfer("x -> y", 5, token=NEW)]), "one more file")
            assert answers(store) == expected
            assert holders(store, token=NEW) == [("y", 5)]
    except UnusableStore as error:
        assert str(root) in str(error), "a refusal names the file"
        assert "holderlake store" in str(error), "a refusal names the remedy"
        return "refused"
    return "right"


def kind_of(path: Path) -> str:
    """The kind of a store's file."""
    if path.name in (CATALOG, COPY):
        return path.name
    return path.parent.name if path.suffix == ".parquet" else path.suffix
