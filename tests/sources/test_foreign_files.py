"""Transfer files of other tools are imported with documented options, or refused with the option that helps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.engine.errors import BadSource
from holderlake.engine.records import TRANSFERS
from holderlake.sources.files.mapping import parse_map, read_block_times
from holderlake.sources.files.transfers import FileOptions, FileTransfers
from tests.helpers.damage import damage
from tests.sources.foreign import BLOCKS_FILE, HASHES, REFUSED, SAMPLES, TIMES, Sample
from tests.sources.reading import read_file


def read(folder: Path, name: str, content: bytes, options: Mapping[str, Any]) -> FileTransfers:
    path, blocks = folder / name, folder / "block-times.csv"
    path.write_bytes(content)
    blocks.write_bytes(BLOCKS_FILE)
    others = {key: value for key, value in options.items() if key not in {"column_map", "constants", "blocks"}}
    column_map = parse_map(options.get("column_map", ()), options.get("constants", ()))
    times = read_block_times([blocks]) if options.get("blocks") else {}
    found = read_file(path, FileOptions(column_map=column_map, block_times=times, **others))
    if found.rejected is not None:
        raise found.rejected.error()
    return found


@pytest.mark.later(integration=19)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.title)
def test_a_foreign_file_gives_the_same_balances_and_transactions(sample: Sample, tmp_path: Path) -> None:
    rows = read(tmp_path, sample.name, sample.content, sample.options).transfers.to_pylist()
    balances: Counter[str] = Counter()
    for row in rows:
        balances[row["from_address"]] -= int(row["value"])
        balances[row["to_address"]] += int(row["value"])
    ann, bob = sample.holders
    assert balances == {ZERO_ADDRESS: -1000, ann: 600, bob: 400}
    assert {row["token_address"] for row in rows} == {sample.token}
    assert {row["block_time"] for row in rows} == set(TIMES)
    wanted = {"eth": set(HASHES), "solana": {"5" * 87 + "1", "5" * 87 + "2"}}
    (chain,) = {row["chain"] for row in rows}
    if sample.title != "Covalent":  # the sample maps no transaction
        assert {row["tx_hash"] for row in rows} == wanted.get(chain, {text[2:] for text in HASHES})


@pytest.mark.parametrize(
    ("name", "content", "options", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_a_file_that_cannot_be_read_is_refused_with_the_remedy(
    name: str, content: bytes, options: Mapping[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(BadSource) as caught:
        read(tmp_path, name, content, options)
    assert re.search(words, str(caught.value)), caught.value
    assert str(caught.value).startswith(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_refused_or_read_without_gaps(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    for number, sample in enumerate(SAMPLES):
        path = tmp_path / f"{number}-{sample.name}"
        path.write_bytes(sample.content)
        done = damage(path, chance)
        try:
            rows = read(tmp_path, path.name, path.read_bytes() if path.exists() else b"", sample.options).transfers
        except BadSource as refused:
            assert "\n" not in str(refused), done
        else:
            gaps = [field.name for field in TRANSFERS if not field.nullable and rows[field.name].null_count]
            assert gaps == [], done
