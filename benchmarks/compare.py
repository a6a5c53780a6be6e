"""How often the cause of a difference between two warehouses is right: planted differences, found and explained.

    python -m benchmarks.compare HOME/warehouse.duckdb [--differences 500]

The warehouse is copied, and rows of the copy are changed: an amount or a relationship (transfers), shares, labels,
decimals, the length of a list, the order of equal amounts, the instant of a list, and thresholds. A token and instant
has differences of one cause only. Equal warehouses must have none.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import duckdb

from holderlake.comparison.compare import compare

Place = tuple[str, str, object]
_HERE = "chain = ? AND token_address = ? AND timestamp = ?"


class Planter:
    """Changes rows of a warehouse, and remembers the planted causes by place, kind and subject."""

    def __init__(self, database: duckdb.DuckDBPyConnection, random: Random) -> None:
        self.database = database
        self.random = random
        self.planted: dict[tuple[Place, str, str], str] = {}

    def _some(self, sql: str, place: Place, most: int) -> list[tuple[object, ...]]:
        rows = self.database.execute(sql, place).fetchall()
        return self.random.sample(rows, min(most, len(rows)))

    def transfers(self, place: Place) -> None:
        """Change amounts a little, so that ranks stay, and counts of relationships."""
        for (address,) in self._some(f"SELECT address FROM holders WHERE {_HERE} AND amount > 1000", place, 4):
            self.database.execute(
                f"UPDATE holders SET amount = amount - 0.001, amount_exact = NULL WHERE {_HERE} AND address = ?",
                [*place, address],
            )
            self.planted[place, "amount", str(address)] = "transfers"
        sql = (
            "SELECT from_address, to_address, transfer_chain, transfer_token FROM grouped_transfers "
            f"WHERE {_HERE} AND time_node IS NULL"
        )
        changes = (
            "UPDATE grouped_transfers SET total_transfers = total_transfers + 1",
            "DELETE FROM grouped_transfers",
        )
        key = "from_address = ? AND to_address = ? AND transfer_chain = ? AND transfer_token = ? AND time_node IS NULL"
        for number, (one, other, chain, token) in enumerate(self._some(sql, place, 4)):
            self.database.execute(f"{changes[number % 2]} WHERE {_HERE} AND {key}", [*place, one, other, chain, token])
            subject = f"{one} to {other}"
            subject += f" of {token}" if token != place[1] else ""
            subject += f" on {chain}" if chain != place[0] else ""
            self.planted[place, "relationship", subject] = "transfers"

    def supply(self, place: Place) -> None:
        self.database.execute(f"UPDATE holders SET share = share * 0.9 WHERE {_HERE}", place)
        self.planted[place, "share", ""] = "other supply"

    def labels(self, place: Place) -> None:
        for (address,) in self._some(f"SELECT address FROM holders WHERE {_HERE}", place, 6):
            self.database.execute(
                f"UPDATE holders SET label = 'Other name' WHERE {_HERE} AND address = ?", [*place, address]
            )
            self.planted[place, "label", str(address)] = "other labels"

    def decimals(self, place: Place) -> None:
        if self._some(f"SELECT 1 FROM holders WHERE {_HERE} AND amount IS NULL", place, 1):
            return  # amounts beyond 38 digits are text
        self.database.execute(f"UPDATE holders SET amount = amount / 1000, amount_exact = NULL WHERE {_HERE}", place)
        for (address,) in self._some(f"SELECT address FROM holders WHERE {_HERE}", place, 5):
            self.planted[place, "amount", str(address)] = "other decimals"

    def limits(self, place: Place) -> None:
        for (address,) in self._some(f"SELECT address FROM holders WHERE {_HERE} AND rank > 70", place, 6):
            self.planted[place, "holder", str(address)] = "other limits"
        self.database.execute(f"DELETE FROM holders WHERE {_HERE} AND rank > 70", place)

    def lateness(self, place: Place) -> None:
        earlier = self.database.execute(
            "SELECT max(timestamp) FROM holders WHERE chain = ? AND token_address = ? AND timestamp < ?", place
        ).fetchall()[0][0]
        if earlier is None:
            return
        before = {
            row[0]: row[1]
            for row in self.database.execute(
                f"SELECT address, amount FROM holders WHERE {_HERE}", [*place[:2], earlier]
            ).fetchall()
        }
        now = {
            row[0]: row[1]
            for row in self.database.execute(f"SELECT address, amount FROM holders WHERE {_HERE}", place).fetchall()
        }
        if before == now:
            return
        self.database.execute(f"DELETE FROM holders WHERE {_HERE}", place)
        self.database.execute(
            f"INSERT INTO holders SELECT * REPLACE (?::TIMESTAMP AS timestamp) FROM holders WHERE {_HERE}",
            [place[2], *place[:2], earlier],
        )
        for address in before.keys() & now.keys():
            if before[address] != now[address]:
                self.planted[place, "amount", address] = "lateness"

    def ties(self, place: Place) -> None:
        found = self._some(
            f"SELECT list(address ORDER BY rank), list(rank ORDER BY rank) FROM holders WHERE {_HERE} "
            "GROUP BY amount HAVING count(*) > 1",
            place,
            3,
        )
        for addresses, ranks in found:
            assert isinstance(addresses, list)
            assert isinstance(ranks, list)
            for address, rank in zip(addresses[:2], ranks[1::-1], strict=True):
                self.database.execute(
                    f"UPDATE holders SET rank = ? WHERE {_HERE} AND address = ?", [rank, *place, address]
                )
                self.planted[place, "rank", address] = "ties"

    def thresholds(self, place: Place) -> None:
        scored = f"{_HERE} AND service_score IS NOT NULL"
        if not self._some(f"SELECT 1 FROM maps WHERE {scored}", place, 1):
            return
        self.database.execute(
            f"UPDATE maps SET rules = 'other', service_score = service_score + 1 WHERE {scored}", place
        )
        self.planted[place, "score", ""] = "other thresholds"


def main() -> None:
    """Plant, compare, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warehouse", type=Path)
    parser.add_argument("--differences", type=int, default=500)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other.duckdb"
        shutil.copyfile(chosen.warehouse, other)
        print(f"equal warehouses: {compare(chosen.warehouse, other)[0].num_rows} differences")
        with duckdb.connect(str(other)) as database:
            planter = Planter(database, Random(1))
            places = database.execute(
                "SELECT DISTINCT chain, token_address, timestamp FROM maps ORDER BY ALL"
            ).fetchall()
            planter.random.shuffle(places)
            ways: list[Callable[[Place], None]] = [
                planter.transfers,
                planter.supply,
                planter.labels,
                planter.decimals,
                planter.limits,
                planter.lateness,
                planter.ties,
                planter.thresholds,
            ]
            chosen_ways = [(ways[number % len(ways)], place) for number, place in enumerate(places)]
            # a list of an earlier instant must not have been changed yet
            chosen_ways.sort(key=lambda pair: pair[0] != planter.lateness)
            for plant, place in chosen_ways:
                if len(planter.planted) < chosen.differences:
                    plant(place)
        found = {
            ((row["chain"], row["token_address"], row["timestamp"]), row["what"], row["subject"]): row["cause"]
            for row in compare(chosen.warehouse, other)[0].to_pylist()
        }
    right = Counter(cause for key, cause in planter.planted.items() if found.get(key) == cause)
    every = Counter(planter.planted.values())
    seen = sum(key in found for key in planter.planted)
    print(f"{len(planter.planted)} planted: {seen} found, {right.total()} with the right cause")
    wrong = Counter(
        (cause, key[1], found.get(key)) for key, cause in planter.planted.items() if found.get(key) != cause
    )
    for (cause, what, said), count in wrong.items():
        print(f"  planted {cause}, found as {said}: {count} ({what})")
    for cause, count in every.items():
        print(f"  {cause:17} {right[cause]} of {count}")


if __name__ == "__main__":
    main()
