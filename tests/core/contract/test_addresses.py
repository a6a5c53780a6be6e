"""Addresses in the spellings of exports and people."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.core.contract.chains import KNOWN_CHAINS, ZERO_ADDRESS, chain_typed
from holderlake.core.contract.chains.address_columns import parse_addresses
from holderlake.core.contract.chains.addresses import (
    has_right_checksum,
    parse_address,
    parse_token,
    typed_token,
)
from holderlake.core.contract.chains.keccak import keccak256
from holderlake.core.contract.models import TokenKey
from holderlake.core.storage.names import chain_name

EVM = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"
CHECKSUMMED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
TRON = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"
TRON_HEX = "41a614f803b6fd780986a42c78ec9c7f77e6ded13c"
TON = "EQCxE6mUtQJKFnGfaROTKOt1lZbDiiX1kCixRv7Nw2Id_sDs"
TON_HEX = "b113a994b5024a16719f69139328eb759596c38a25f59028b146fecdc3621dfe"
SOLANA = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"

SPELLINGS = [
    ("eth", CHECKSUMMED, EVM),
    ("base", EVM.upper(), EVM),
    ("bsc", EVM[2:], EVM),
    ("eth", rf"\x{EVM[2:]}", EVM),
    ("eth", rf"\\x{EVM[2:]}", EVM),
    ("arc", f"0x{'0' * 24}{EVM[2:]}", EVM),
    ("eth", f"{'0' * 24}{EVM[2:]}", EVM),
    ("eth", f'  "{CHECKSUMMED}"\n', EVM),
    ("eth", bytes.fromhex(EVM[2:]), EVM),
    ("eth", bytes(12) + bytes.fromhex(EVM[2:]), EVM),
    ("tron", TRON, TRON),
    ("tron", TRON_HEX, TRON),
    ("tron", f"0x{TRON_HEX.upper()}", TRON),
    ("tron", f"0x{TRON_HEX[2:]}", TRON),
    ("tron", f"0x{'0' * 24}{TRON_HEX[2:]}", TRON),
    ("tron", f"0x{'0' * 22}{TRON_HEX}", TRON),
    ("tron", bytes.fromhex(TRON_HEX), TRON),
    ("tron", "T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb", ZERO_ADDRESS),
    ("tron", ZERO_ADDRESS, ZERO_ADDRESS),
    ("ton", TON, TON),
    ("ton", TON.replace("_", "/"), TON),
    ("ton", "UQCxE6mUtQJKFnGfaROTKOt1lZbDiiX1kCixRv7Nw2Id_p0p", TON),
    ("ton", f"0:{TON_HEX}", TON),
    ("ton", f"0:{TON_HEX.upper()}", TON),
    ("ton", f"0:{'0' * 64}", ZERO_ADDRESS),
    ("ton", f"-1:{'5' * 64}", "Ef9VVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVbxn"),
    ("solana", SOLANA, SOLANA),
    ("solana", "1" * 32, "1" * 32),
    ("solana", "1nc1nerator11111111111111111111111111111111", "1nc1nerator11111111111111111111111111111111"),
    ("solana", bytes(32), "1" * 32),
    ("solana", ZERO_ADDRESS, ZERO_ADDRESS),
    ("cosmos", "cosmos1c4k24jzduc365kywrsvf5ujz4ya6mwymy8vq4q", "cosmos1c4k24jzduc365kywrsvf5ujz4ya6mwymy8vq4q"),
    ("linea", CHECKSUMMED, EVM),
    ("linea", rf"\x{EVM[2:]}", EVM),
]

REFUSED = [
    ("eth", r"\x00e7", "it has 4 digits"),
    ("eth", "0x" + "11" * 32, "it has 64 digits, without 24 leading zeros"),
    ("eth", EVM[:-1], "it has 39 digits"),
    ("eth", "vitalik.eth", "it looks like a name"),
    ("eth", "OKEx", "'OKEx' is not an address of chain eth"),
    ("eth", "null", "an address is missing"),
    ("eth", SOLANA, "0x and 40 hexadecimal digits"),
    ("eth", b"\1\2", "it has 4 digits"),
    ("tron", TRON[:-1] + "u", "its checksum is wrong"),
    ("tron", SOLANA, "T and 33 letters"),
    ("ton", TON[:-1] + "A", "its checksum is wrong"),
    ("ton", "kQCxE6mUtQJKFnGfaROTKOt1lZbDiiX1kCixRv7Nw2Id_ntm", "of the test network"),
    ("ton", f"2:{TON_HEX}", "is not an address of chain ton"),
    ("ton", "wallet.ton", "is not an address of chain ton"),
    ("solana", SOLANA.replace("E", "0"), "32 bytes in base58"),
    ("solana", "z" * 44, "32 bytes in base58"),
    ("solana", "2" * 42, "32 bytes in base58"),
    ("solana", EVM, "32 bytes in base58"),
    ("linea", "two words", "no %; it has ' '"),
    ("linea", "x\x1b[2J", "visible letters of ASCII"),
    ("linea", "x" * 129, "at most 128"),
]


@pytest.mark.parametrize(("chain", "written", "stored"), SPELLINGS)
def test_every_spelling_of_an_address_is_converted_to_one(chain: str, written: str | bytes, stored: str) -> None:
    assert parse_address(chain, written) == stored
    assert parse_address(chain, stored) == stored


@pytest.mark.parametrize(("chain", "written", "reason"), REFUSED)
def test_text_that_is_no_address_of_the_chain_is_refused(chain: str, written: str | bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("(", r"\(")):
        parse_address(chain, written)


@pytest.mark.parametrize("chain", [*KNOWN_CHAINS, "linea"])
def test_a_column_is_parsed_like_its_texts_one_by_one(chain: str) -> None:
    texts = [written for _, written, _ in (*SPELLINGS, *REFUSED) if isinstance(written, str)]
    texts += ["JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFG", "JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFH"]

    def alone(text: str) -> str | None:
        try:
            return parse_address(chain, text)
        except ValueError:
            return None

    assert parse_addresses(chain, pa.array(texts)).to_pylist() == [alone(text) for text in texts]


@given(st.binary(min_size=32, max_size=32))
def test_every_solana_key_is_an_address(key: bytes) -> None:
    written = parse_address("solana", key)
    assert parse_addresses("solana", pa.array([written])).to_pylist() == [written]


@given(st.binary(min_size=20, max_size=20), st.integers(0, 33), st.sampled_from("abcXYZ789"))
def test_a_mistyped_letter_breaks_a_tron_address(key: bytes, place: int, letter: str) -> None:
    written = parse_address("tron", b"\x41" + key)
    mistyped = written[:place] + letter + written[place + 1 :]
    if written not in {ZERO_ADDRESS, mistyped}:
        assert parse_addresses("tron", pa.array([mistyped])).to_pylist() == [None]


def test_the_native_coin_is_a_token_but_no_address() -> None:
    assert parse_token("eth", " NATIVE ") == "native"
    with pytest.raises(ValueError, match="is not an address"):
        parse_address("eth", "native")


def test_a_typed_address_must_match_its_checksum() -> None:
    assert typed_token("eth", CHECKSUMMED) == typed_token("eth", EVM) == EVM
    assert typed_token("linea", CHECKSUMMED) == EVM
    with pytest.raises(ValueError, match=r"wrong checksum.*lower case"):
        typed_token("eth", CHECKSUMMED.replace("5aA", "5aa"))


def test_checksums_are_those_of_eip_55() -> None:
    examples = [
        "0x52908400098527886E0F7030069857D2E4169EE7",
        "0xde709f2102306220921060314715629080e2fb77",
        "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    ]
    assert all(map(has_right_checksum, examples))
    assert not has_right_checksum(examples[2].replace("fB", "Fb"))


def test_keccak_is_that_of_ethereum() -> None:
    signature = np.frombuffer(b"Transfer(address,address,uint256)", np.uint8)
    digests = keccak256(np.tile(signature, (5_000, 1)))
    wanted = "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
    assert {row.tobytes().hex() for row in digests} == {wanted}
    assert digests[0].tobytes() != hashlib.sha3_256(signature.tobytes()).digest()


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        *((chain, True) for chain in ("eth", "a", "-_", "zk.era-1", "x" * 64)),
        *((text, False) for text in ("", ".eth", "..", "a/b", "my chain", "x" * 65, "a\nb", "é")),
    ],
)
def test_a_chain_id_has_one_form_in_requests_paths_and_commands(text: str, is_allowed: bool) -> None:
    for check in (chain_typed, chain_name, lambda text: TokenKey(chain=text, address="0x1").chain):
        if is_allowed:
            assert check(text) == text
        else:
            with pytest.raises(ValueError, match=r"not a chain id|should match pattern|should have at"):
                check(text)
