"""The built-in sample world: two years of invented transfers on four chains, its rules, and its store in the home.

The files in ``world`` are made by ``benchmarks.sample_world``. All is invented, except the chains and their native
tokens.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import uuid
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holderlake.core.settings import AddressSet, Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from holderlake.core.contract.rules import Rules
    from holderlake.engine.records import Label, TokenInfo

_FOLDER: Final = Path(__file__).parent / "world"
TRANSACTIONS: Final = _FOLDER / "transfers.parquet"
FACTS: Final = _FOLDER / "world.json"
_BASE58: Final = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_LETTERS: Final = bytes(_BASE58[byte % len(_BASE58)] for byte in range(256))


@dataclass(frozen=True)
class World:
    """The content of the sample world. Every token begins with mints, and no balance is ever negative.

    ``transfers`` has the schema ``engine.records.TRANSFERS``. All transfers are from ``start`` to ``end`` (excluded,
    UTC). ``rules`` has small thresholds, so that the world has supernodes and hypernodes. ``address_sets`` has
    addresses with interesting relationships, by name.
    """

    transfers: pa.Table
    tokens: list[TokenInfo]
    labels: list[Label]
    rules: Rules
    start: datetime
    end: datetime
    address_sets: dict[str, list[str]]


def with_sample_watchlist(settings: Settings) -> Settings:
    """Return settings with the sample world's tokens and address sets, unless the settings have their own."""
    watchlist: dict[str, list[str]] = {}
    for token in _facts()["tokens"]:
        if token["chain"] == "eth" or not token.get("is_indexed"):  # all chains have similar native and stable tokens
            watchlist.setdefault(token["chain"], []).append(token["address"])
    sets = {name: AddressSet(addresses=addresses) for name, addresses in _facts()["address_sets"].items()}
    return settings.model_copy(
        update={"watchlist": settings.watchlist or watchlist, "address_sets": settings.address_sets or sets}
    )


def sample_period() -> tuple[datetime, datetime]:
    """Return the first and the last instant of the sample world (UTC, without time zone)."""
    return datetime.fromisoformat(_facts()["start"]), datetime.fromisoformat(_facts()["end"])


def sample_rules() -> Rules:
    """Return the rules of the sample world. Their thresholds fit its small number of addresses."""
    return sample_world().rules


def sample_store(home: Path) -> Path:
    """Return the folder of the sample world's store. If it is missing, it is built.

    The folder is built under another name and renamed at the end, so it is either complete or missing.
    """
    final = home / "sample-world" / f"engine-{world_version()}"
    if final.exists():
        return final
    from holderlake.engine.store.store import Store

    world = sample_world()
    building = final.with_name(f".{final.name}.{uuid.uuid4().hex}")
    with Store(building, world.rules) as store:
        store.add_tokens(world.tokens)
        store.add_labels(world.labels)
        store.add_transfers(world.transfers, "sample world")
    try:
        building.rename(final)
    except OSError:  # another process built it meanwhile
        shutil.rmtree(building)
    return final


def world_version() -> str:
    """Return a digest of the sample world. It changes when the world changes."""
    version: str = _facts()["version"]
    return version


@cache
def _facts() -> Any:
    """Return the world without its transfers: all that most commands need."""
    return json.loads(FACTS.read_text(encoding="utf-8"))


@cache
def sample_world() -> World:
    """Return the sample world. It is read once in a process."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from holderlake.core.contract.rules import Rules
    from holderlake.engine.records import TRANSFERS, Label, TokenInfo

    facts = _facts()
    rows = pq.read_table(TRANSACTIONS)
    numbers = rows["transaction"].to_pylist()
    hashes = _hashes(dict(zip(numbers, rows["chain"].to_pylist(), strict=True)))
    rows = rows.append_column("tx_hash", pa.array([hashes[number] for number in numbers], pa.string()))
    return World(
        rows.select(TRANSFERS.names).cast(TRANSFERS),
        [TokenInfo(**fields) for fields in facts["tokens"]],
        [Label(**{"chain": None, **fields}) for fields in facts["labels"]],
        Rules(**facts["rules"]),
        datetime.fromisoformat(facts["start"]),
        datetime.fromisoformat(facts["end"]),
        facts["address_sets"],
    )


def _hashes(chains: dict[int, str]) -> list[str]:
    """Return invented hashes of the transactions, by number. ``chains`` has the chain of each one."""
    seed = int.from_bytes(hashlib.sha256(b"book").digest(), "big")
    bits = random.Random(seed).getrandbits  # noqa: S311 - invented data, no secrets
    return [
        bits(8 * 88).to_bytes(88, "big").translate(_LETTERS).decode()
        if chains[number] == "solana"
        else f"0x{bits(4 * 64):064x}"
        for number in range(len(chains))
    ]
