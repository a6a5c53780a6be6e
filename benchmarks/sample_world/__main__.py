"""Write the sample world's files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.sample_world.world import made_world
from holderlake.sources.sample_world import FACTS, TRANSACTIONS


def main() -> None:
    """Make the world, and write its two files."""
    world, numbers = made_world()
    rows = zip(*(column.to_pylist() for column in world.transfers.columns), strict=True)
    text = repr((world.tokens, world.labels, world.rules.model_dump(), list(rows)))
    places = pa.array([numbers[text] for text in world.transfers["tx_hash"].to_pylist()], pa.int32())
    table = world.transfers.drop_columns(["tx_hash"]).append_column("transaction", places)
    pq.write_table(table, TRANSACTIONS, compression="zstd", compression_level=19)
    facts = {
        "version": hashlib.sha256(text.encode()).hexdigest()[:12],
        "start": world.start.isoformat(),
        "end": world.end.isoformat(),
        "rules": world.rules.model_dump(mode="json", exclude_defaults=True),
        "address_sets": world.address_sets,
        "tokens": [_stated(asdict(token)) for token in world.tokens],
        "labels": [_stated(asdict(label)) for label in world.labels],
    }
    FACTS.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _stated(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None and value is not False}


main()
