"""Numbers as exports write them, read exactly or refused. Nothing here rounds."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from holderlake.contract.chains.addresses import shown

MAX_AMOUNT: Final = 2**256 - 1
MAX_DECIMALS: Final = 255
_MAX_DIGITS: Final = len(str(MAX_AMOUNT)) + 1
_EXACT_FLOAT: Final = 2**53
"""Whole numbers below this come through a floating-point number unchanged."""
_FLOAT_DIGITS: Final = (16, 17)
"""Digits that a floating-point number is written with where it had more."""

_DIGITS: Final = re.compile(r"[0-9]+")
_HEX: Final = re.compile(r"(?:0[xX]|\\+x)([0-9a-fA-F]+)")
_FRACTION: Final = re.compile(r"(-?)([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]{1,4}))?")
_WAY_OUT: Final = "give raw integers, decimal or 0x"
_UNITS: Final = (
    "is not a whole number; give raw integers, decimal or 0x, or say how many decimals the token has "
    "(--set decimals=18 or --map decimals=COLUMN)"
)


def whole_number(value: object) -> int:
    """An exact integer from 0 to 2^256 - 1. Raises ``ValueError`` saying what is wrong."""
    return _in_range(_integer(value), value)


def counted(value: object) -> int:
    """A whole number that counts something: blocks, logs. Floating-point numbers below 2^53 are exact too."""
    if isinstance(value, float):
        if not value.is_integer() or abs(value) >= _EXACT_FLOAT:
            raise ValueError(f"{shown(value)} is not a whole number; {_WAY_OUT}")
        return _in_range(int(value), value)
    if isinstance(value, str) and value.strip() == "0x":  # as Etherscan writes nought
        return 0
    return whole_number(value)


def raw_amount(text: str, decimals: int) -> int:
    """The raw integer of an amount in token units. Raises ``ValueError`` where the text has lost digits."""
    if decimals > MAX_DECIMALS:
        raise ValueError(f"{decimals} is not a number of decimals (0 to {MAX_DECIMALS})")
    plain = _bare(text)
    found = _FRACTION.fullmatch(plain)
    if found is None or not (found[2] or found[3]):
        raise ValueError(f"{shown(text)} is not a number{_separator_hint(plain)}")
    sign, whole, fraction, exponent = found.groups()
    digits, places = (whole + fraction).lstrip("0"), len(fraction) - int(exponent or 0)
    if places < 0 and digits:
        raise ValueError(f"{shown(text)} {_LOST}")
    if len(digits) in _FLOAT_DIGITS and decimals > places and "." in plain:
        raise ValueError(
            f"{shown(text)} may have been rounded: {len(digits)} digits are what floating-point numbers keep; "
            "export raw integers, or amounts with all their digits"
        )
    beyond = digits[max(len(digits) - (places - decimals), 0) :] if places > decimals else ""
    if beyond.strip("0"):
        raise ValueError(f"{shown(text)} has more than {decimals} decimals; check the token's decimals")
    kept = digits[: len(digits) - len(beyond)] if places > decimals else digits + "0" * (decimals - places)
    number = int(kept[:_MAX_DIGITS] or "0") if len(kept) <= _MAX_DIGITS else MAX_AMOUNT + 1
    return _in_range(-number if sign else number, text)


_LOST: Final = (
    "leaves digits out, as spreadsheets and floating-point numbers do; export the column as text, with all its digits"
)


def _in_range(number: int, value: object) -> int:
    if number < 0:
        raise ValueError(f"{shown(value)} is negative; a transfer moves zero or more, so swap sender and receiver")
    if number > MAX_AMOUNT:
        raise ValueError(f"{shown(value)} is over 2^256 - 1, the most that a token can move; check the export")
    return number


def _integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, bytes):
        return int.from_bytes(value, "big")
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    text = _bare(str(value))
    found = _HEX.fullmatch(text)
    if found:
        return int(found[1], 16)
    digits = text.removeprefix("-")
    if _DIGITS.fullmatch(digits):
        # int() refuses thousands of digits; whatever has more than 256 bits can have is too large alike
        number = int(digits.lstrip("0")[:_MAX_DIGITS] or "0")
        return -number if text.startswith("-") else number
    return _written_out(text, value)


def _written_out(text: str, value: object) -> int:
    """A whole number with a point or an exponent that leaves no digit out: 12.0, 0E-18, 1.25e2."""
    found = _FRACTION.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        raise ValueError(f"{shown(value)} is not a whole number; {_WAY_OUT}{_separator_hint(text)}")
    sign, whole, fraction, exponent = found.groups()
    digits, places = (whole + fraction).lstrip("0"), len(fraction) - int(exponent or 0)
    significant = len(digits.rstrip("0"))
    if not significant:
        return 0
    if places < 0:
        raise ValueError(f"{shown(value)} {_LOST}")
    if digits[len(digits) - places :].strip("0") or places > len(digits):
        raise ValueError(f"{shown(value)} {_UNITS}")
    kept = digits[: len(digits) - places]
    if len(kept) > _MAX_DIGITS:
        return -MAX_AMOUNT if sign else MAX_AMOUNT + 1
    number = int(kept or "0")
    if number >= _EXACT_FLOAT and significant <= max(_FLOAT_DIGITS):
        raise ValueError(
            f"{shown(value)} may have been rounded by a floating-point number; export the raw integer as text"
        )
    return -number if sign else number


def _bare(text: str) -> str:
    """Without white space and the quotation marks that keep spreadsheets from changing a number."""
    return text.strip().strip("\"'").strip()


def _separator_hint(text: str) -> str:
    return "; name the letter between thousands (--thousands ,)" if re.fullmatch(r"-?[0-9][0-9,.' ]*", text) else ""
