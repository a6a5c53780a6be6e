"""Parse exact numbers from the texts and values of exports. A number that may have lost digits is an error."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from holderlake.contract.chains.addresses import shown

MAX_AMOUNT: Final = 2**256 - 1
MAX_DECIMALS: Final = 255
_MAX_DIGITS: Final = len(str(MAX_AMOUNT)) + 1
_EXACT_FLOAT: Final = 2**53
"""Below this number, every whole number is exact as a floating-point number."""
_FLOAT_DIGITS: Final = (16, 17)
"""Possible numbers of digits of a floating-point number that was rounded and written as text."""

_DIGITS: Final = re.compile(r"[0-9]+")
_HEX: Final = re.compile(r"(?:0[xX]|\\+x)([0-9a-fA-F]+)")
_FRACTION: Final = re.compile(r"(-?)([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]{1,4}))?")
_REMEDY: Final = "export raw integers, decimal or 0x"
_UNITS: Final = (
    "is not a whole number; export raw integers, decimal or 0x, or set the token's decimals "
    "(--set decimals=18 or --map decimals=COLUMN)"
)


def whole_number(value: object) -> int:
    """Return an exact integer from 0 to 2^256 - 1. Raises ``ValueError`` for any other value."""
    return _in_range(_integer(value), value)


def whole_count(value: object) -> int:
    """Return a whole number that is not an amount, for example a block number or a log index.

    Unlike an amount, it may be a floating-point number below 2^53. Raises ``ValueError`` for any other value.
    """
    if isinstance(value, float):
        if not value.is_integer() or abs(value) >= _EXACT_FLOAT:
            raise ValueError(f"{shown(value)} is not a whole number; {_REMEDY}")
        return _in_range(int(value), value)
    if isinstance(value, str) and value.strip() == "0x":  # Etherscan's zero
        return 0
    return whole_number(value)


def has_more_digits_than_floats(text: str) -> bool:
    """Return whether the number has more digits than a floating-point number has when it is written as text."""
    return len(re.sub(r"[eE].*|[^0-9]", "", _bare(text)).strip("0")) > max(_FLOAT_DIGITS)


def raw_amount(text: str, decimals: int, *, is_exact: bool = False) -> int:
    """Return an amount in token units as a raw integer. Raises ``ValueError`` if the text may have lost digits.

    ``is_exact``: no floating-point number wrote the text, so that 16 or 17 digits are no sign of a rounded number.
    """
    if decimals > MAX_DECIMALS:
        raise ValueError(f"{decimals} decimals are too many; use the token's decimals, from 0 to {MAX_DECIMALS}")
    plain = _bare(text)
    match = _FRACTION.fullmatch(plain)
    if match is None or not (match[2] or match[3]):
        raise ValueError(f"{shown(text)} is not a number; write for example 12.5{_separator_hint(plain)}")
    sign, integral, fraction, exponent = match.groups()
    digits, places = (integral + fraction).lstrip("0"), len(fraction) - int(exponent or 0)
    if places < 0 and digits:
        raise ValueError(f"{shown(text)} {_LOST_DIGITS}")
    if len(digits) in _FLOAT_DIGITS and decimals > places and "." in plain and not is_exact:
        raise ValueError(
            f"{shown(text)} may be rounded, because floating-point numbers have {len(digits)} digits; export raw "
            "integers, or amounts with all their digits"
        )
    beyond = digits[max(len(digits) - (places - decimals), 0) :] if places > decimals else ""
    if beyond.strip("0"):
        raise ValueError(f"{shown(text)} has more than {decimals} decimals; check the token's decimals")
    scaled = digits[: len(digits) - len(beyond)] if places > decimals else digits + "0" * (decimals - places)
    number = int(scaled[:_MAX_DIGITS] or "0") if len(scaled) <= _MAX_DIGITS else MAX_AMOUNT + 1
    return _in_range(-number if sign else number, text)


_LOST_DIGITS: Final = (
    "has lost digits, as in spreadsheets and floating-point numbers; export the column as text, with all its digits"
)


def _in_range(number: int, value: object) -> int:
    if number < 0:
        raise ValueError(f"{shown(value)} is negative; an amount is zero or more, so swap sender and receiver")
    if number > MAX_AMOUNT:
        raise ValueError(f"{shown(value)} is over 2^256 - 1, the largest amount; check the export")
    return number


def _integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, bytes):
        return int.from_bytes(value, "big")
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    text = _bare(str(value))
    match = _HEX.fullmatch(text)
    if match:
        return int(match[1], 16)
    digits = text.removeprefix("-")
    if _DIGITS.fullmatch(digits):
        # int() refuses thousands of digits; the first ones already show that the number exceeds 256 bits
        number = int(digits.lstrip("0")[:_MAX_DIGITS] or "0")
        return -number if text.startswith("-") else number
    return _written_out(text, value)


def _written_out(text: str, value: object) -> int:
    """Return a whole number written with a point or an exponent, for example 12.0 or 0E-18.

    Raises ``ValueError`` if it may have lost digits.
    """
    match = _FRACTION.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise ValueError(f"{shown(value)} is not a whole number; {_REMEDY}{_separator_hint(text)}")
    sign, integral, fraction, exponent = match.groups()
    digits, places = (integral + fraction).lstrip("0"), len(fraction) - int(exponent or 0)
    significant = len(digits.rstrip("0"))
    if not significant:
        return 0
    if places < 0:
        raise ValueError(f"{shown(value)} {_LOST_DIGITS}")
    if digits[len(digits) - places :].strip("0") or places > len(digits):
        raise ValueError(f"{shown(value)} {_UNITS}")
    integral_digits = digits[: len(digits) - places]
    if len(integral_digits) > _MAX_DIGITS:
        return -MAX_AMOUNT if sign else MAX_AMOUNT + 1
    number = int(integral_digits or "0")
    if number >= _EXACT_FLOAT and significant <= max(_FLOAT_DIGITS):
        raise ValueError(f"{shown(value)} may be a rounded floating-point number; export the raw integer as text")
    return -number if sign else number


def _bare(text: str) -> str:
    """Return the text without surrounding spaces and quotation marks. Exports for spreadsheets quote long numbers."""
    return text.strip().strip("\"'").strip()


def _separator_hint(text: str) -> str:
    if not re.fullmatch(r"-?[0-9][0-9,.'_ \u00a0\u202f\u2009\u2019]*", text):
        return ""
    marks = "".join(re.findall(r"[^-0-9]", text))
    if marks.endswith(",") and (set(marks[:-1]) == {"."} or not re.search(r",[0-9]{3}$", text)):
        return "; set the separator of thousands (--thousands .), so that the comma is the decimal mark"
    return f"; set the separator of thousands (--thousands {marks[0] if marks[0] in ',._' else repr(marks[0])})"
