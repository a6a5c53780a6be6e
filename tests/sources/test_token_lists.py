"""Names and decimals of tokens from token lists."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holderlake.engine.errors import BadSource
from holderlake.engine.records import TRANSFERS, TokenInfo
from holderlake.engine.store.store import Store
from holderlake.sources.token_lists import read_tokens
from tests.sources.conftest import HOLDERLAKE_ROW
from tests.sources.reading import written

TOKEN = {"chainId": 56, "address": "0x" + "A" * 40, "name": "Quill", "symbol": "QLL", "decimals": 9}


def read_list(tmp_path: Path, *tokens: dict[str, Any]) -> list[TokenInfo]:
    return read_tokens(written(tmp_path, {"name": "a list", "tokens": list(tokens)})).tokens


def test_a_token_list_is_read(tmp_path: Path) -> None:
    picture = "https://example.org/quill.png"
    assert read_list(tmp_path, {**TOKEN, "logoURI": picture}) == [
        TokenInfo("bsc", "0x" + "a" * 40, "Quill", "QLL", 9, img_url=picture)
    ]


def test_solana_is_chain_101_and_keeps_the_case_of_addresses(tmp_path: Path) -> None:
    mint = "So11111111111111111111111111111111111111112"
    (token,) = read_list(tmp_path, {**TOKEN, "chainId": 101, "address": mint})
    assert (token.chain, token.address) == ("solana", mint)


def test_unknown_chains_and_duplicates_are_left_out(tmp_path: Path) -> None:
    tokens = read_list(tmp_path, TOKEN, {**TOKEN, "chainId": 103}, {**TOKEN, "name": "Quill again"})
    assert [token.name for token in tokens] == ["Quill"]


def test_a_blank_symbol_or_name_is_filled_with_the_other(tmp_path: Path) -> None:
    (token,) = read_list(tmp_path, {**TOKEN, "symbol": ""})
    assert (token.name, token.symbol) == ("Quill", "Quill")
    (token,) = read_list(tmp_path, {**TOKEN, "name": " "})
    assert (token.name, token.symbol) == ("QLL", "QLL")


def test_a_contract_map_is_of_ethereum(tmp_path: Path) -> None:
    token = {"name": "Moths", "symbol": "GM", "decimals": 0, "erc721": True, "logo": "moths.svg"}
    assert read_tokens(written(tmp_path, {"0x" + "B" * 40: token})).tokens == [
        TokenInfo("eth", "0x" + "b" * 40, "Moths", "GM", 0, standard="erc721")
    ]


@pytest.mark.parametrize("written_as", [9, "9", "0x9", "0X09", " 9 ", 9.0, "9.0"])
def test_clear_numbers_of_token_lists_are_read(tmp_path: Path, written_as: object) -> None:
    (token,) = read_list(tmp_path, {**TOKEN, "decimals": written_as})
    assert token.decimals == 9


@pytest.mark.parametrize("written_as", [56, "56", "0x38", 56.0])
def test_clear_chain_ids_of_token_lists_are_read(tmp_path: Path, written_as: object) -> None:
    (token,) = read_list(tmp_path, {**TOKEN, "chainId": written_as})
    assert token.chain == "bsc"


def test_one_odd_token_is_left_out_with_its_reason(tmp_path: Path) -> None:
    read = read_tokens(written(tmp_path, {"tokens": [TOKEN, {**TOKEN, "decimals": None}]}))
    assert ([token.name for token in read.tokens], len(read.left_out)) == (["Quill"], 1)
    assert "row 2: decimals is None" in read.left_out[0]


def test_a_token_that_a_map_has_twice_is_left_out(tmp_path: Path) -> None:
    named, other = '{"name": "Quill", "symbol": "Q", "decimals": 8}', "0x" + "9" * 40
    keys = (TOKEN["address"], other, TOKEN["address"])
    read = read_tokens(written(tmp_path, "{" + ", ".join(f'"{key}": {named}' for key in keys) + "}"))
    assert [token.address for token in read.tokens] == [other]
    assert "is repeated in a JSON object; remove the repetition, or the token" in read.left_out[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not complete JSON"),
        ("[]", "unknown layout"),
        ('{"a": 1}', "unknown layout"),
        ({"tokens": [{**TOKEN, "decimals": "9.5"}]}, "row 1: decimals is '9.5'; write a whole number"),
        ({"tokens": [{**TOKEN, "decimals": True}]}, "decimals is 'True'; write a whole number"),
        ({"tokens": [{**TOKEN, "chainId": "moon"}]}, "chainId is 'moon'; write the number of the chain"),
        ({"tokens": [{**TOKEN, "address": "0x123"}]}, "row 1: '0x123' is not an address of chain bsc"),
        ({"tokens": ["0xa"]}, "unknown layout"),
        ('{"tokens": [{"symbol": "A", "decimals": 1, "decimals": 2}]}', "the key 'decimals' is repeated"),
        ({"tokens": [{**TOKEN, "is_indexed": "perhaps"}]}, "is_indexed is 'perhaps'; write true or false"),
        ({"tokens": [{**TOKEN, "decimals": 256}]}, "decimals is '256'; write a whole number"),
        ({"tokens": [{**TOKEN, "address": ""}]}, "row 1: a token has no address"),
        ({"tokens": [{**TOKEN, "name": "", "symbol": None}]}, "neither name nor symbol"),
    ],
)
def test_an_invalid_token_list_is_refused(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(BadSource, match=words):
        read_tokens(written(tmp_path, content))


def test_a_gzipped_list_is_read_like_a_plain_one(tmp_path: Path) -> None:
    plain = written(tmp_path, {"name": "a list", "tokens": [TOKEN]})
    packed = tmp_path / "file.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_tokens(packed).tokens == read_tokens(plain).tokens != []


@pytest.mark.parametrize("is_list_first", [True, False])
def test_a_list_without_standards_leaves_that_of_transfers(is_list_first: bool, tmp_path: Path) -> None:
    tokens = read_list(tmp_path, {**TOKEN, "decimals": 0})
    key = tokens[0].chain, tokens[0].address
    item = {"token_id": "7", "value": "1", "token_standard": "erc721", "chain": key[0], "token_address": key[1]}
    transfers = pa.Table.from_pylist([{**HOLDERLAKE_ROW, **item}], TRANSFERS)
    with Store(tmp_path / "store") as store:
        steps = [lambda: store.add_tokens(tokens), lambda: store.add_transfers(transfers, "file")]
        for step in steps if is_list_first else reversed(steps):
            step()
        (stored,) = store.tokens([key]).values()
        assert (stored.standard, stored.name, stored.decimals, stored.is_assumed) == ("erc721", "Quill", 0, False)
