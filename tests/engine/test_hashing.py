"""Hashes are those of MD5, so that any version finds the keys in the files of a store."""

from __future__ import annotations

import hashlib
from random import Random

import pyarrow as pa

from holderlake.engine.importing.rows import Coding
from holderlake.engine.numeric import hashing
from tests.engine.world import table, transfer


def test_texts_of_any_length_have_the_lower_half_of_their_md5() -> None:
    chance = Random(1)
    letters = "0123456789abcdefxéλ🙂"
    texts = ["", *("".join(chance.choices(letters, k=size)) for size in range(200))]
    chance.shuffle(texts)
    halves = [hashlib.md5(text.encode(), usedforsecurity=False).digest()[8:] for text in texts]
    expected = [int.from_bytes(half, "little") for half in halves]
    assert hashing.digests(pa.array(texts)).tolist() == expected
    assert hashing.digests(pa.array(texts, pa.large_string()).slice(3, 90)).tolist() == expected[3:93]
    assert hashing.digests(pa.array([], pa.string())).tolist() == []


def test_the_key_of_a_transfer_is_hashed() -> None:
    rows = [
        transfer("a -> b", tx_hash="0x1", log_index=7),
        transfer("a -> b", tx_hash="0x1", log_index=7, token_id="12"),
        transfer("a -> b", tx_hash=None, log_index=7, block_number=5),
        transfer("a -> b", tx_hash=None, log_index=0, block_number=5, token_id="12"),
    ]
    texts = ["0x1/7/", "0x1/7/12", "5:a:b/7/", "5:a:b/0/12"]
    assert Coding.keys(table(rows)).tolist() == hashing.digests_of_few(texts).tolist()
