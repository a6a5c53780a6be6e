"""Parse addresses that users write: check them by family of chains, and convert them to one spelling.

All imported and typed addresses are parsed here, so that every address has one spelling and one balance.
``parse_address`` reads one text, and ``parse_addresses`` of ``address_columns`` a column. ``normalise_address`` of the
package does not check: it only writes hexadecimal addresses in lower case.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from typing import Final

from holderlake.core.contract.chains import NATIVE, ZERO_ADDRESS, Family, family_of, one_spelling

MAX_LENGTH: Final = 128
NO_VALUE: Final = frozenset({"", "null", "none", "nan", "<na>", "nil", "undefined", "n/a", "\\n"})
"""Texts (in lower case) that data exports write for a missing value."""

_EVM: Final = re.compile(r"0x[0-9a-f]{40}")
_HEX: Final = re.compile(r"(?:0x|\\+x)?([0-9a-f]+)", re.IGNORECASE)
_BYTEA: Final = re.compile(r"\\x[0-9a-fA-F]+")
ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE58: Final = re.compile(f"[{ALPHABET}]+")
_BECH32: Final = re.compile(r"[a-z]{2,20}1[02-9ac-hj-np-z]{38,58}")
_TON_RAW: Final = re.compile(r"(-1|0):([0-9a-f]{64})", re.IGNORECASE)
_TON_FRIENDLY: Final = re.compile(r"[A-Za-z0-9_\-+/]{48}")
_PLAIN: Final = re.compile(r"[!-$&-~]+")  # the contract's Address: visible, without %
_TRON_PREFIX: Final = 0x41
_TON_TAGS: Final = {0x11: False, 0x51: False, 0x91: True, 0xD1: True}
"""First bytes of user-friendly TON addresses. The value is True if the byte means the test network."""

_FORMS: Final[dict[Family, str]] = {
    "evm": "0x and 40 hexadecimal digits",
    "solana": "32 bytes in base58, mostly 43 or 44 letters",
    "tron": "T and 33 letters in base58, or 41 and 40 hexadecimal digits",
    "ton": "0: and 64 hexadecimal digits, or 48 letters such as EQC…",
}
SPELT_EVM: Final = r"(?:0[xX]|\\+[xX])?(?:0{24})?([0-9a-fA-F]{40})"
"""A regular expression, for RE2 too, of the common spellings of an EVM address."""
MIXED_CASE: Final = r"[a-f].*[A-F]|[A-F].*[a-f]"


def parse_address(chain: str | None, text: str | bytes) -> str:
    """Return an address (text or raw bytes) in its stored spelling. Raises ``ValueError`` with the reason.

    Accepted forms by family of chains:

    - EVM: hexadecimal in any case, after 0x, ``\\x`` or nothing, also padded to 32 bytes. Stored as 0x and lower case.
    - Solana: base58 of 32 bytes.
    - TRON: base58 with checksum, or hexadecimal. Stored in base58.
    - TON: the raw form and all friendly forms. Stored in the bounceable form ``EQ…``, with its checksum.
    - Other chains: at most 128 visible ASCII characters, without %, in the spelling of ``one_spelling``.

    The zero addresses of TRON and TON become ``ZERO_ADDRESS``, from which tokens are minted.
    """
    family = family_of(chain)
    plain = text if isinstance(text, bytes) else _unquoted(text)
    if isinstance(plain, str) and plain.lower() in NO_VALUE:
        raise ValueError(f"an address is missing: the text is {shown(text)}; write an address")
    if plain == ZERO_ADDRESS:
        return ZERO_ADDRESS
    if family is None:
        return _any(chain or "", f"0x{plain.hex()}" if isinstance(plain, bytes) else plain)
    address = _PARSERS[family](plain)
    if address is None:
        raise ValueError(f"{shown(text)} is not an address of chain {chain} ({_FORMS[family]}){_hint(plain, family)}")
    return address


def is_any_address(text: str) -> bool:
    """Return whether a text is certainly an address of an EVM chain, Solana, TRON, TON or a Cosmos chain, or a hash."""
    plain = _unquoted(text)
    if re.fullmatch(r"(0x|\\+x)([0-9a-f]{40}|[0-9a-f]{64})", plain, re.IGNORECASE) or _BECH32.fullmatch(plain):
        return True
    if len(plain) < 32:
        return False
    return any(_PARSERS[family](plain) for family in ("evm", "solana", "tron", "ton"))


def parse_token(chain: str | None, text: str | bytes) -> str:
    """Return the address of a token in its stored spelling, or ``native`` for the chain's coin.

    ``parse_address`` lists the accepted forms. Raises ``ValueError`` for other text.
    """
    is_native = isinstance(text, str) and _unquoted(text).lower() == NATIVE
    return NATIVE if is_native else parse_address(chain, text)


def parse_unplaced_address(text: str) -> str:
    """Return an address whose chain is unknown, in the stored spelling of the family that its form suggests.

    Hexadecimal text is treated as an EVM address, valid TON text as a TON address. Other text is unchanged. Raises
    ``ValueError`` if the text cannot be an address.
    """
    plain = _unquoted(text)
    digits = _digits(plain)
    if digits and not plain.isdecimal():
        is_long = len(digits) > 40 and not digits.startswith("0" * (len(digits) - 40))
        return parse_address("sui" if is_long and len(digits) <= 64 else "eth", f"0x{digits}" if is_long else plain)
    return _ton(plain) or parse_address(None, plain)


def typed_token(chain: str | None, text: str) -> str:
    """Return the address of a token that a user typed in its stored spelling, or ``native`` for the chain's coin.

    Raises ``ValueError`` for text that is no address, and for an EVM address in mixed case with a wrong checksum
    (EIP-55).
    """
    token = parse_token(chain, text)
    if family_of(chain) in ("evm", None) and _EVM.fullmatch(token) and not has_right_checksum(_unquoted(text)):
        raise ValueError(
            f"{shown(text)} has a wrong checksum (EIP-55), so a letter may be mistyped; "
            "check it, or write it in lower case"
        )
    return token


def has_right_checksum(text: str) -> bool:
    """Return False for an EVM address in mixed case whose checksum (EIP-55) is wrong, True for all other text."""
    digits = _unquoted(text)[-40:]
    if not re.fullmatch(SPELT_EVM, _unquoted(text)) or not re.search(MIXED_CASE, digits):
        return True
    from holderlake.core.contract.chains.keccak import checksummed  # noqa: PLC0415 - numpy, for few texts

    return checksummed([digits]) == [digits]


def shown(value: object) -> str:
    """Return the ``repr`` of a value for an error message, cut to 90 characters."""
    text = repr(value)
    return text if len(text) <= 90 else f"{text[:87]}..."


def _unquoted(text: str) -> str:
    return text.strip().strip("\"'").strip()


def _evm(plain: str | bytes) -> str | None:
    digits = _digits(plain)
    if len(digits) == 64 and digits.startswith("0" * 24):
        digits = digits[24:]
    return f"0x{digits}" if len(digits) == 40 else None


def _solana(plain: str | bytes) -> str | None:
    if isinstance(plain, bytes):
        return _to_base58(plain) if len(plain) == 32 else None
    decoded = from_base58(plain)
    return plain if decoded is not None and len(decoded) == 32 else None


def _tron(plain: str | bytes) -> str | None:
    """Return a TRON address in base58, or None for text that is not one.

    Base58 encodes the byte 0x41, 20 bytes, and a checksum: the first 4 bytes of the double SHA-256.
    """
    body = _tron_body(plain)
    if body is None:
        return None
    if not any(body[1:]):
        return ZERO_ADDRESS
    return _to_base58(body + _double_sha256(body)[:4])


def _tron_body(plain: str | bytes) -> bytes | None:
    if isinstance(plain, str) and plain.startswith("T"):
        decoded = from_base58(plain)
        if decoded is None or len(decoded) != 25 or decoded[0] != _TRON_PREFIX:
            return None
        return decoded[:21] if _double_sha256(decoded[:21])[:4] == decoded[21:] else None
    digits = _digits(plain)
    if len(digits) == 64:
        digits = digits.removeprefix("0" * 22)
        digits = digits.removeprefix("00") if len(digits) == 42 and digits.startswith("00") else digits
    if len(digits) == 40:
        digits = f"{_TRON_PREFIX:x}{digits}"
    return bytes.fromhex(digits) if len(digits) == 42 and digits.startswith(f"{_TRON_PREFIX:x}") else None


def _ton(plain: str | bytes) -> str | None:
    """Return a TON address in its bounceable form, or None for text that is not one.

    The form is URL-safe base64 of a tag byte, the workchain, 32 bytes, and their CRC-16.
    """
    body = _ton_body(plain)
    if body is None:
        return None
    if not any(body):
        return ZERO_ADDRESS
    tagged = b"\x11" + body
    return base64.urlsafe_b64encode(tagged + _crc16(tagged)).decode()


def _ton_body(plain: str | bytes) -> bytes | None:
    """Return the 33 bytes of a TON address: the workchain (one signed byte) and 32 bytes. None for other text."""
    if isinstance(plain, str):
        raw = _TON_RAW.fullmatch(plain)
        if raw:
            return (b"\xff" if raw[1] == "-1" else b"\x00") + bytes.fromhex(raw[2])
        if not _TON_FRIENDLY.fullmatch(plain):
            return None
        plain = base64.urlsafe_b64decode(plain.replace("+", "-").replace("/", "_"))
    is_main = len(plain) == 36 and _TON_TAGS.get(plain[0]) is False and plain[1] in (0, 0xFF)
    return plain[1:34] if is_main and _crc16(plain[:34]) == plain[34:] else None


def _any(chain: str, text: str) -> str:
    spelt = one_spelling(chain, f"0x{text[2:]}" if _BYTEA.fullmatch(text) else text)
    odd = next((letter for letter in spelt if not _PLAIN.fullmatch(letter)), None)
    if len(spelt) > MAX_LENGTH or odd is not None:
        has = f"; it has {odd!r}" if odd else f"; it has {len(spelt):,}"
        raise ValueError(
            f"{shown(text)} is not an address: give at most {MAX_LENGTH} visible letters of ASCII, no %{has}"
        )
    return spelt


def _hint(plain: str | bytes, family: Family) -> str:
    digits = _digits(plain)
    if isinstance(plain, str) and "." in plain and family == "evm":
        return "; it looks like a name: give an address instead"
    if family == "evm" and digits:
        padding = ", without 24 leading zeros" if len(digits) == 64 else ""
        return f"; it has {len(digits)} digits{padding}"
    if family == "tron" and isinstance(plain, str) and plain.startswith("T") and len(plain) == 34:
        return "; its checksum is wrong, so a letter may be mistyped"
    if family == "ton" and isinstance(plain, str) and _TON_FRIENDLY.fullmatch(plain):
        return "; its checksum is wrong, or it is of the test network"
    return ""


def _digits(plain: str | bytes) -> str:
    """Return the hexadecimal digits of an address without prefix, or an empty text if it is not hexadecimal."""
    if isinstance(plain, bytes):
        return plain.hex()
    match = _HEX.fullmatch(plain)
    return match[1].lower() if match else ""


def from_base58(text: str) -> bytes | None:
    if len(text) > MAX_LENGTH or not _BASE58.fullmatch(text):
        return None
    number = 0
    for letter in text:
        number = number * 58 + ALPHABET.index(letter)
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")


def _to_base58(data: bytes) -> str:
    number, letters = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        letters = ALPHABET[digit] + letters
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + letters


def _double_sha256(data: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()


def _crc16(data: bytes) -> bytes:
    return binascii.crc_hqx(data, 0).to_bytes(2, "big")


_PARSERS: Final[dict[Family, Callable[[str | bytes], str | None]]] = {
    "evm": _evm,
    "solana": _solana,
    "tron": _tron,
    "ton": _ton,
}
LEAST_43: Final = _to_base58(b"\x01" + bytes(31))
MOST_44: Final = _to_base58(b"\xff" * 32)
