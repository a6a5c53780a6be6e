"""Transaction hashes in one spelling for each family of chains, so that no transfer is stored twice."""

from __future__ import annotations

import base64
import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.contract.chains import Family
from holderlake.contract.chains.addresses import MAX_LENGTH, shown

_SPELT: Final = re.compile(r"(?:0x|\\+x)?([0-9a-f]{64})", re.IGNORECASE)
_BASE64: Final = re.compile(r"[A-Za-z0-9_\-+/]{43}=?")
_QUICK: Final = r"^(?:0[xX])?([0-9a-fA-F]{64})$"
_VISIBLE: Final = re.compile(r"[!-~]+")


def parse_hash(family: Family | None, value: str | bytes) -> str:
    """Return a transaction hash in its standard spelling. ``family`` is the family of its chain, None if unknown.

    On EVM chains, the spelling is lower case with 0x. On TRON and TON, it is hexadecimal digits without 0x (a TON hash
    may be given in base64). On other chains, a hexadecimal hash with 0x is changed to lower case, and other hashes stay
    unchanged. Raises ``ValueError`` for text that cannot be a hash.
    """
    text = f"0x{value.hex()}" if isinstance(value, bytes) else value.strip().strip("\"'")
    if len(text) > MAX_LENGTH or not _VISIBLE.fullmatch(text):
        raise ValueError(f"{shown(value)} is not the hash of a transaction; check the export")
    if family in {None, "solana"}:
        return text.lower() if text[:2] in {"0x", "0X"} else text
    match = _SPELT.fullmatch(text)
    if match is None and family == "ton" and _BASE64.fullmatch(text):
        padded = text.replace("-", "+").replace("_", "/").rstrip("=") + "="
        return base64.b64decode(padded).hex()
    if match is None:
        return text.lower() if text[:2] in {"0x", "0X"} else text
    return _prefixed(family, match[1].lower())


def parse_hashes(family: Family | None, texts: pa.Array) -> pa.Array:
    """Return hexadecimal hashes of 32 bytes in the standard spelling of the family, and null for all other texts."""
    if family in {None, "solana"}:
        return pa.nulls(len(texts), pa.string())
    digits = pc.utf8_lower(pc.utf8_slice_codeunits(texts, -64))
    spelt = digits if _prefixed(family, "") == "" else pc.binary_join_element_wise("0x", digits, "")
    return pc.if_else(pc.match_substring_regex(texts, _QUICK), spelt, pa.scalar(None, pa.string()))


def _prefixed(family: Family | None, digits: str) -> str:
    return digits if family in {"tron", "ton"} else f"0x{digits}"
