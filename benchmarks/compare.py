"""Measure how often ``holderlake compare`` is right: homes that differ for known reasons, over several histories.

    python -m benchmarks.compare [--data ../shared/data] [--seeds 1,2] [--mixtures 20] [--only generated]

Each history fills a home, and another one for each cause: 1 % of the transfers missing, no labels, a smaller limit,
other thresholds, and so on; random mixtures have two or three causes at once. The right cause of a difference makes
this difference alone too. Causes that compare does not know must be unexplained, and homes that were filled over
another transport have no difference. Histories are generated, and those of ``--data``. The last column has the largest
shares of one history and seed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from holderlake.analysis.comparison.compare import compare
from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.rules import Rules
from holderlake.core.contract.tables import TABLES, with_fetched_at
from holderlake.core.contract.times import from_unix
from holderlake.core.ingest.partition import with_option_columns
from holderlake.core.warehouse.schema import install
from holderlake.engine.catalog.rules import rules_in_force
from holderlake.engine.maps.batch import holder_batches, map_batches
from holderlake.engine.records import TRANSFERS, Key, Label, TokenInfo
from holderlake.engine.store.store import Store
from holderlake.sources.files.transfers import FileOptions, transfers_of
from holderlake.sources.labels import read_labels
from holderlake.sources.raw_rows import read_raw
from holderlake.sources.sample_world import sample_world

FETCHED_AT: Final = datetime(2026, 11, 1)


@dataclass(frozen=True)
class Home:
    """Everything that a home depends on. ``changes`` are SQL statements over its warehouse."""

    transfers: pa.Table
    tokens: Sequence[TokenInfo]
    labels: Sequence[Label]
    instants: Sequence[datetime]
    watched: Sequence[Key]
    rules: Rules = field(default_factory=Rules)
    limit: int = 250
    options: MapOptions = field(default_factory=MapOptions)
    details: bool = True
    delay: timedelta = timedelta()
    changes: tuple[str, ...] = ()

    def fill(self, path: Path) -> None:
        """Write the home's warehouse to a file."""
        with tempfile.TemporaryDirectory() as folder, Store(Path(folder), self.rules) as store:
            store.add_tokens(self.tokens)
            store.add_labels(self.labels)
            store.add_transfers(self.transfers, "history")
            options = self.options.model_copy(update={"limit": self.limit})
            instants = [instant - self.delay for instant in self.instants]
            tables = [
                {"holders": rows} for rows in holder_batches(store, self.watched, instants, self.limit, self.details)
            ]
            tables += map_batches(store, self.watched, instants, options, FETCHED_AT)
        rules = json.dumps(rules_in_force(self.rules))
        with duckdb.connect(str(path)) as database:
            install(database)
            for batch in tables:
                for name, rows in with_option_columns(
                    {name: with_fetched_at(TABLES[name], rows, FETCHED_AT) for name, rows in batch.items()},
                    options.model_dump(),
                    rules,
                ).items():
                    database.register("batch", rows)
                    delayed = f"as_of + INTERVAL {int(self.delay.total_seconds())} SECONDS"
                    database.execute(
                        f"INSERT INTO {name} BY NAME SELECT * EXCLUDE (as_of), {delayed} AS timestamp FROM batch"
                    )
            for change in self.changes:
                database.execute(change)


Alter = Callable[[Home, Random], Home]
Row = tuple[Any, ...]
_KEY: Final = ("chain", "token_address", "timestamp", "what", "subject")


def fewer_transfers(home: Home, random: Random) -> Home:
    kept = [random.random() >= 0.01 for _ in range(home.transfers.num_rows)]
    return replace(home, transfers=home.transfers.filter(pa.array(kept)))


def fewer_indexed(home: Home, random: Random) -> Home:
    """Leave out half of the transfers of indexed tokens."""
    indexed = {token.address for token in home.tokens if token.is_indexed}
    kept = [address not in indexed or random.random() < 0.5 for address in home.transfers["token_address"].to_pylist()]
    return replace(home, transfers=home.transfers.filter(pa.array(kept)))


def no_labels(home: Home, random: Random) -> Home:
    return replace(home, labels=[])


def other_labels(home: Home, random: Random) -> Home:
    return replace(home, labels=[label for label in home.labels if random.random() < 0.5])


def changed(**values: Any) -> Alter:
    return lambda home, _: replace(home, **values)


def other_rules(**values: Any) -> Alter:
    return lambda home, _: replace(home, rules=home.rules.model_copy(update=values))


def other_options(**values: Any) -> Alter:
    return lambda home, _: replace(home, options=home.options.model_copy(update=values))


def sql(*statements: str) -> Alter:
    return lambda home, _: replace(home, changes=home.changes + statements)


def delayed(home: Home, random: Random) -> Home:
    return replace(home, delay=(home.instants[1] - home.instants[0]))


def other_decimals(home: Home, random: Random) -> Home:
    watched = set(home.watched)
    tokens = [
        replace(token, decimals=token.decimals + 3) if (token.chain, token.address) in watched else token
        for token in home.tokens
    ]
    return replace(home, tokens=tokens)


def unindexed(home: Home, random: Random) -> Home:
    return replace(home, tokens=[replace(token, is_indexed=False) for token in home.tokens])


def later_blocks(home: Home, random: Random) -> Home:
    times = pc.add(home.transfers["block_time"], 5_000)
    return replace(
        home,
        transfers=home.transfers.set_column(
            TRANSFERS.get_field_index("block_time"), TRANSFERS.field("block_time"), times
        ),
    )


_TIES: Final = """
UPDATE {table} SET rank = other.rank FROM (
    SELECT chain, token_address, timestamp, address,
        min(rank) OVER tie + row_number() OVER (tie ORDER BY hash(address)) - 1 AS rank
    FROM {table} {where}
    WINDOW tie AS (PARTITION BY chain, token_address, timestamp, amount, amount_exact)
) AS other
WHERE {table}.chain = other.chain AND {table}.token_address = other.token_address
    AND {table}.timestamp = other.timestamp AND {table}.address = other.address {and_where}
"""
_ALTERATIONS: Final[dict[str, tuple[str, Alter]]] = {
    "1 % of transfers missing": ("transfers", fewer_transfers),
    "indexed transfers missing": ("transfers", fewer_indexed),
    "no labels": ("other labels", no_labels),
    "half of the labels": ("other labels", other_labels),
    "limit 80": ("other limits", changed(limit=80)),
    "no magic nodes": ("other limits", other_options(use_magic_nodes=False)),
    "no time nodes": ("other limits", other_options(use_time_nodes=False)),
    "magic thresholds": ("other thresholds", other_rules(magic_links=3)),
    "fewer magic nodes": ("other thresholds", other_rules(magic_limit=15)),
    "degree thresholds": ("other thresholds", other_rules(supernode_degree=25, hypernode_transfers=200)),
    "time thresholds": ("other thresholds", other_rules(time_window=3_600, time_wallets=50)),
    "order of ties": ("ties", sql(
        _TIES.format(table="holders", where="", and_where=""),
        _TIES.format(table="map_nodes", where="WHERE kind = 'top_holder'", and_where="AND kind = 'top_holder'"),
    )),
    "a step late": ("lateness", delayed),
    "decimals": ("other decimals", other_decimals),
    "supply": ("other supply", sql(
        "UPDATE holders SET share = share * 0.9", "UPDATE map_nodes SET share = share * 0.9"
    )),
    "blocks an hour late": ("lateness", later_blocks),
    "transport": ("none", changed(details=False)),
    "fewer indexed tokens": ("unexplained", unindexed),
    "a hidden holder": ("unexplained", sql(
        "DELETE FROM holders WHERE rank = 3", "UPDATE holders SET rank = rank - 1 WHERE rank > 3"
    )),
    "rounded amounts": ("unexplained", sql("UPDATE holders SET amount = round(amount, -1), amount_exact = NULL")),
    "all amounts doubled": ("unexplained", sql(
        "UPDATE holders SET amount = amount * 2", "UPDATE map_nodes SET amount = amount * 2"
    )),
    "hidden links": ("unexplained", sql(
        "DELETE FROM grouped_transfers WHERE total_transfers = 1 AND hash(from_address, to_address) % 5 = 0"
    )),
    "other score": ("unexplained", sql("UPDATE maps SET service_score = service_score * 0.5")),
    "other clusters": ("unexplained", sql("DELETE FROM cluster_members WHERE cluster_id > 2")),
}  # fmt: skip
"""By cause: the name that compare gives to it, and what it alters in a home. Compare does not know the last ones."""
CAUSES: Final = {cause: name for cause, (name, _) in _ALTERATIONS.items()}
ALTERATIONS: Final = {cause: alter for cause, (_, alter) in _ALTERATIONS.items()}


def mixtures(seed: int, count: int) -> list[tuple[str, ...]]:
    """Return random mixtures of two or three causes that compare knows by different names."""
    random, known = Random(seed), [cause for cause, name in CAUSES.items() if name not in {"none", "unexplained"}]
    chosen: dict[tuple[str, ...], None] = {}
    while len(chosen) < count:
        causes = tuple(random.sample(known, random.choice((2, 3))))
        if len({CAUSES[cause] for cause in causes}) == len(causes):
            chosen[causes] = None
    return list(chosen)


def evenly(transfers: pa.Table, count: int) -> list[datetime]:
    """Return instants from the first to the last transfer, without the first."""
    first, last = (end(transfers["block_time"]).as_py() for end in (pc.min, pc.max))
    return [from_unix(first + (last - first) * (step + 1) // count) for step in range(count)]


def generated(seed: int, instants: int = 5, wallets: int = 180, size: int = 1_800) -> Home:
    """Return the home of a generated history of a token and an indexed coin: most wallets hold the token and pay their
    friends, the others pay many in the coin. There are an exchange, a pool, and vaults."""
    random = Random(seed)
    cex, dex, coin, token, *all_wallets = (f"0x{number:040x}" for number in random.sample(range(1, 10**6), wallets + 4))
    holders, payers = all_wallets[wallets // 6 :], all_wallets[: wallets // 6]
    rows = [(token, ZERO_ADDRESS, holder, random.randrange(1, 50) * 1_000) for holder in holders]
    rows += [(coin, ZERO_ADDRESS, wallet, 100_000) for wallet in all_wallets]
    rows += [(key, ZERO_ADDRESS, exchange, 10**6) for key in (coin, token) for exchange in (cex, dex)]
    for _ in range(size):
        place = random.randrange(len(holders))
        holder, friend = (holders[(place + step) % len(holders)] for step in (0, random.choice([1, 1, 7, 31])))
        ways = [(token, holder, friend)] * 3 + [
            (coin, holder, friend),
            (coin, random.choice(payers[: random.choice([2, len(payers)])]), friend),
        ]
        ways += [(token, cex, friend), (token, holder, dex), (coin, holder, cex)]
        rows.append((*random.choice(ways), random.randrange(1, 300)))
    transfers = pa.Table.from_pylist(
        [
            {
                "chain": "eth", "token_address": key, "token_standard": "erc20", "from_address": sender,
                "to_address": receiver, "value": str(value), "block_number": number,
                "block_time": 1_700_000_000 + 1_000 * (number // 4), "tx_hash": f"0x{number:064x}", "log_index": 0,
                "time_kind": "exact", "log_index_kind": "exact", "source": "generated",
            }
            for number, (key, sender, receiver, value) in enumerate(rows)
        ],
        TRANSFERS,
    )  # fmt: skip
    return Home(
        transfers,
        [TokenInfo("eth", token, "Token", "TOK", 0), TokenInfo("eth", coin, "Coin", "COIN", 0, is_indexed=True)],
        [
            Label(cex, None, "test", "Exchange", is_cex=True),
            Label(dex, None, "test", "Pool", is_dex=True, is_contract=True),
            *(Label(address, None, "test", f"Vault {address}", is_contract=True) for address in all_wallets[::15]),
        ],
        evenly(transfers, instants),
        [("eth", token)],
        Rules(magic_limit=20),
    )


def histories(data: Path | None, instants: int, seed: int) -> Iterator[tuple[str, Home]]:
    """Yield the name and the home of each history."""
    yield "generated", generated(seed, instants)
    world = sample_world()
    for name, chains in {"sample eth": ("eth",), "sample others": ("base", "bsc", "solana")}.items():
        tokens = [
            token for token in world.tokens if token.chain in chains and not (token.is_indexed or token.unsupported)
        ]
        watched = [(token.chain, token.address) for token in tokens]
        yield (
            name,
            Home(world.transfers, world.tokens, world.labels, evenly(world.transfers, instants), watched, world.rules),
        )
    if data is None:
        return
    labels = [label for path in sorted((data / "labels").iterdir()) for label in read_labels(path).labels]
    for path in sorted((data / "transfers").glob("*.parquet")):
        transfers = transfers_of(read_raw(path), FileOptions()).transfers
        chain, address, standard = (transfers[name][0].as_py() for name in ("chain", "token_address", "token_standard"))
        wallets = set(transfers["from_address"].to_pylist()) | set(transfers["to_address"].to_pylist())
        yield (
            path.stem,
            Home(
                transfers,
                [TokenInfo(chain, address, path.stem, path.stem, 18 if standard == "erc20" else 0, standard)],
                [label for label in labels if label.address in wallets and label.chain in (None, chain)],
                evenly(transfers, instants),
                [(chain, address)],
                Rules(supernode_degree=200),
            ),
        )


class Comparisons:
    """Comparisons of the home ``base`` of a history with homes that differ from it for given causes.

    The homes' warehouses are files in ``folder``, whose names begin with ``name``.
    """

    def __init__(self, folder: Path, name: str, base: Home, seed: int) -> None:
        self._folder, self._name, self._base, self._seed = folder, name, base, seed
        self.differences = cache(self._differences)

    def _differences(self, *causes: str) -> dict[Row, str]:
        """Return the named cause of each difference by its key, and by the sides that lack a value."""
        differing, _ = compare(self._warehouse(), self._warehouse(*causes))
        return {
            (*(row[name] for name in _KEY), row["a"] is None, row["b"] is None): row["cause"]
            for row in differing.to_pylist()
        }

    def _warehouse(self, *causes: str) -> Path:
        path = self._folder / f"{self._name} {self._seed} {' + '.join(causes).replace('%', 'pc')}.duckdb"
        if not path.exists():
            home = self._base
            for cause in causes:
                home = ALTERATIONS[cause](home, Random(f"{cause} {self._seed}"))
            home.fill(path)
        return path

    def judged(self, *causes: str) -> Counter[tuple[str, str, str]]:
        """Return the number of differences by verdict (right, unexplained or wrong), kind and named cause.

        The right causes of a difference are those that make it alone too, or all of them if none does.
        """
        verdicts: Counter[tuple[str, str, str]] = Counter()
        for row, named in self.differences(*causes).items():
            alone = {CAUSES[cause] for cause in causes if len(causes) == 1 or row in self.differences(cause)}
            right = alone or {CAUSES[cause] for cause in causes}
            verdict = "right" if named in right else "unexplained" if named == "unexplained" else "wrong"
            verdicts[verdict, row[3], named] += 1
        return verdicts


def main() -> None:
    """Fill the homes, compare them, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with labels and transfers of real histories")
    parser.add_argument("--homes", type=Path, help="keep the homes in this folder, and use those that it has")
    parser.add_argument("--instants", type=int, default=6)
    parser.add_argument("--seeds", default="1", help="numbers, separated by commas")
    parser.add_argument("--mixtures", type=int, default=20, help="number of random mixtures of each history and seed")
    parser.add_argument("--only", help="names of histories, separated by commas")
    parser.add_argument("--verbose", action="store_true", help="list the differences with another cause, by history")
    options = parser.parse_args()
    results: dict[tuple[str, str], list[Counter[str]]] = {(cause, CAUSES[cause]): [] for cause in ALTERATIONS}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.homes or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for seed in map(int, options.seeds.split(",")):
            for name, base in histories(options.data, options.instants, seed):
                if options.only and name not in options.only.split(","):
                    continue
                comparisons = Comparisons(folder, f"{name} {options.instants}", base, seed)
                found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
                for causes in [(cause,) for cause in ALTERATIONS] + mixtures(seed, options.mixtures):
                    key = (causes[0], CAUSES[causes[0]]) if len(causes) == 1 else (f"mixtures of {len(causes)}", "")
                    for (verdict, what, named), count in comparisons.judged(*causes).items():
                        found[key][verdict] += count
                        if options.verbose and verdict != "right":
                            print(f"{name} {seed}: {' + '.join(causes)}: {what} named {named}: {count:,}", flush=True)
                for key, verdicts in found.items():
                    results.setdefault(key, []).append(verdicts)
    print("| cause | named | differences | unexplained | wrong | most of one history and seed: unexplained, wrong |")
    print("|---|---|---|---|---|---|")
    for (cause, name), counts in results.items():
        total = sum(counts, Counter())
        shares = [
            [one[verdict] / max(1, one.total()) for one in (total, *counts)] for verdict in ("unexplained", "wrong")
        ]
        of_all, most = (", ".join(f"{of(share):.2%}" for share in shares) for of in (lambda share: share[0], max))
        print(f"| {cause} | {name} | {total.total():,} | {of_all.replace(', ', ' | ')} | {most} |")


if __name__ == "__main__":
    main()
