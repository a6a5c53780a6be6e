"""Addresses in Arrow columns: the parser of ``addresses`` for many texts at once, and the checksums of EIP-55."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.chains import family_of
from holderlake.core.contract.chains.addresses import (
    ALPHABET,
    LEAST_43,
    MIXED_CASE,
    MOST_44,
    SPELT_EVM,
    parse_address,
)
from holderlake.core.contract.chains.keccak import checksummed

_SPELT_EVM: Final = f"^{SPELT_EVM}$"
_QUOTES: Final = " \t\r\n\"'"


def parse_addresses(chain: str | None, texts: pa.Array) -> pa.Array:
    """Return an Arrow array of distinct texts or bytes as addresses in their stored spelling; invalid ones are null."""
    family = family_of(chain)
    if not pa.types.is_string(texts.type) or family not in ("evm", "solana"):
        return pa.array([_or_none(chain, text) for text in texts.to_pylist()], pa.string())
    plain = pc.utf8_trim(texts, _QUOTES)
    if family == "evm":
        digits = pc.utf8_lower(pc.utf8_slice_codeunits(plain, -40))
        spellings, is_spelt = pc.binary_join_element_wise("0x", digits, ""), pc.match_substring_regex(plain, _SPELT_EVM)
    else:
        spellings, is_spelt = plain, _is_long_base58(plain)
    other_texts = pc.filter(texts, pc.invert(is_spelt))
    spelt = pc.if_else(is_spelt, spellings, pa.scalar(None, pa.string()))
    parsed = pa.array([_or_none(chain, text) for text in other_texts.to_pylist()], pa.string())
    return pc.replace_with_mask(spelt, pc.invert(is_spelt), parsed)


def wrong_checksums(texts: pa.Array) -> pa.Array:
    """Return an Arrow array of booleans: True for an EVM address in mixed case whose checksum (EIP-55) is wrong.

    ``texts`` is an Arrow array of strings.
    """
    plain = pc.utf8_trim(texts, _QUOTES)
    digits = pc.utf8_slice_codeunits(plain, -40)
    mixed = pc.and_(pc.match_substring_regex(plain, _SPELT_EVM), pc.match_substring_regex(digits, MIXED_CASE))
    mixed_digits = digits.filter(mixed)
    wrong = pc.not_equal(pa.array(checksummed(mixed_digits.to_pylist()), pa.string()), mixed_digits)
    return pc.replace_with_mask(pc.fill_null(mixed, False), pc.fill_null(mixed, False), wrong)


def _is_long_base58(plain: pa.Array) -> pa.Array:
    """Return an Arrow array of booleans: True for a text that is certainly the base58 form of 32 bytes.

    The function compares texts of 43 or 44 letters with the largest base58 text of 32 bytes. This is correct because
    the base58 alphabet is in ASCII order, so texts of equal length sort like numbers.
    """
    fits = (
        pc.and_(
            pc.match_substring_regex(plain, f"^[{ALPHABET[1:]}][{ALPHABET}]{{42}}$"),
            pc.greater_equal(plain, LEAST_43),
        ),
        pc.and_(
            pc.match_substring_regex(plain, f"^[{ALPHABET[1:]}][{ALPHABET}]{{43}}$"), pc.less_equal(plain, MOST_44)
        ),
    )
    return pc.or_(*fits)


def _or_none(chain: str | None, text: str | bytes | None) -> str | None:
    try:
        return None if text is None else parse_address(chain, text)
    except ValueError:
        return None
