"""The sample of each preset is read by its preset, without a map, into one right transfer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holderlake.core.contract.chains.addresses import parse_address
from holderlake.sources.files.mapping import PRESETS, ColumnMap, Preset, preset_for
from holderlake.sources.files.transfers import FileOptions
from tests.sources.reading import read_file

OPTIONS = {"decimals": "6", "token_address": "0x" + "5e" * 20}


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.title)
def test_the_sample_of_a_preset_is_one_transfer(preset: Preset, tmp_path: Path) -> None:
    fits = preset_for(preset.sample, ColumnMap(), preset.format)
    assert fits is not None
    assert fits[0] is preset
    path = tmp_path / "sample.json"
    path.write_text(json.dumps(dict(preset.sample)))
    chain = None if {"chain"} & {*preset.constants, *preset.optional} else "eth"
    read = read_file(path, FileOptions(format=preset.format, chain=chain))
    assert (read.rejected, read.passed_over) == (None, 0)
    (row,) = read.transfers.to_pylist()
    for ours in {"from_address", "to_address"} & preset.columns.keys():
        assert row[ours] == parse_address(row["chain"], preset.sample[preset.columns[ours][0]])
    expected = "1" if row["token_standard"] == "erc721" else "2500000" if "decimals" in preset.columns else "250"
    assert (row["value"], row["block_time"]) == (expected, 1729324811)


def test_the_columns_of_a_preset_have_any_spelling() -> None:
    names = ["Transfer_Sender", "transferReceiver", "transfer.currency.smart_contract", "TRANSFER_AMOUNT",
             "Transfer Currency Decimals", "block__number", "transaction-hash"]  # fmt: skip
    fits = preset_for(names, ColumnMap(), None)
    assert fits is not None
    assert (fits[0].format, fits[1].columns["from_address"]) == ("bitquery", "Transfer_Sender")
