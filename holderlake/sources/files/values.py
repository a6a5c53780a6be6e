"""Parse the values of columns: numbers with their separators, times, and hashes."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.chains import Family
from holderlake.core.contract.chains.addresses import MAX_LENGTH, shown
from holderlake.core.contract.times import to_unix
from holderlake.sources.raw_rows import RawTable

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
_SPELT: Final = re.compile(r"(?:0x|\\+x)?([0-9a-f]{64})", re.IGNORECASE)
_BASE64: Final = re.compile(r"[A-Za-z0-9_\-+/]{43}=?")
_QUICK: Final = r"^(?:0[xX])?([0-9a-fA-F]{64})$"
_VISIBLE: Final = re.compile(r"[!-~]+")
_LOOKALIKES: Final = {" ": " \u00a0\u202f\u2009", "'": "'\u2019"}
"""Separators that look alike: with one of them, all of them are removed."""
FIRST_SECOND: Final = 1_230_768_000
"""2009-01-01 in unix seconds. The first block of the first chain is of the third of January 2009."""
LAST_SECOND: Final = 4_102_444_800
"""2100-01-01 in unix seconds. A later time is of another unit."""
NO_TIME: Final = "a transfer needs a time; remove the row, or add the times of blocks (--blocks FILE)"

_PER_SECOND: Final = (1, 10**3, 10**6, 10**9)
"""Units per second in the four units of unix times: seconds, milliseconds, microseconds and nanoseconds.

From 2009 to 2100, a number is a valid time in only one of the units.
"""
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?")
_HEX_TIME: Final = re.compile(r"0[xX][0-9a-fA-F]+")
_COMPACT_DATE: Final = re.compile(r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:[0-9]{6})?")
_ISO_SPACE: Final = re.compile(r"\s*(?:\+?UTC|GMT|Z)$", re.IGNORECASE)
_FORMS: Final = "write unix seconds or 2026-11-20 12:00:00 (UTC)"
_DAY: Final = 86_400
_EXCEL_EPOCHS: Final = {"1900": datetime(1899, 12, 30, tzinfo=UTC), "1904": datetime(1904, 1, 1, tzinfo=UTC)}


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
    sign, digits, places, exponent = _parts(plain, f"{shown(text)} is not a number; write for example 12.5")
    if places < 0 and digits and not (is_exact and _is_round(digits, exponent)):
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


def _parts(text: str, reason: str) -> tuple[str, str, int, str]:
    """Return the sign of a number, its digits without leading zeros, how many of them are decimals, and its exponent.

    Raises ``ValueError`` with the ``reason`` for other text.
    """
    match = _FRACTION.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise ValueError(f"{reason}{_separator_hint(text)}")
    sign, integral, fraction, exponent = match.groups(default="")
    return sign, (integral + fraction).lstrip("0"), len(fraction) - int(exponent or 0), exponent


def _is_round(digits: str, exponent: str) -> bool:
    """Return whether an exponent may be of a program that writes round numbers so. Spreadsheets write six digits, or an
    exponent such as +07."""
    return len(digits) < _SHEET_DIGITS and not exponent.lstrip("+").startswith("0")


_SHEET_DIGITS: Final = 6
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
    sign, digits, places, _ = _parts(text, f"{shown(value)} is not a whole number; {_REMEDY}")
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


def without_separators(raw: RawTable, name: str, thousands: str) -> RawTable:
    """Return the file with plain numbers in the text column ``name``: ``1,234.5`` becomes ``1234.5``.

    ``thousands`` is the separator. The decimal mark is a point or a comma, the one that does not separate thousands.
    A number whose groups of digits are irregular is added to the problems, because its comma or point may be a decimal
    mark.
    """
    column = raw.table.column(name)
    if not pa.types.is_string(column.type):
        return raw
    encoded = column.combine_chunks().dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    marks = {mark for mark in {".", ","} - {thousands} if any(mark in text for text in texts if text is not None)}
    plain: list[str | None] = []
    reasons: list[str | None] = []
    for text in texts:
        number = None if text is None else _plain(text, thousands, marks)
        plain.append(text if number is None else number)
        reasons.append(None if text is None or number is not None else _reason(text, thousands, marks))
    if any(reasons):
        raw.problems.add(name, pa.array(reasons, pa.string()).take(encoded.indices))
    place = raw.table.column_names.index(name)
    return raw.over(raw.table.set_column(place, name, pa.array(plain, pa.string()).take(encoded.indices)))


def _plain(text: str, thousands: str, marks: set[str]) -> str | None:
    """Return a number without separators; None if its digits are not in regular groups. Other texts are unchanged."""
    number = text.strip().strip("\"'").strip()
    if not re.match(r"[-+]?[0-9.,]", number) or re.fullmatch(r"0[xX].*", number):
        return text
    separator = f"[{re.escape(_LOOKALIKES.get(thousands, thousands))}]"
    mark = re.escape("".join(marks)) and f"[{re.escape(''.join(marks))}]"
    fraction = f"({mark}[0-9]*)?" if mark else "()"
    groups = (
        f"[0-9]*|[0-9]{{1,3}}(?:{separator}[0-9]{{3}})+|[0-9]{{1,2}}(?:{separator}[0-9]{{2}})+{separator}[0-9]{{3}}"
    )
    match = re.fullmatch(f"([-+]?)({groups}){fraction}([eE][-+]?[0-9]+)?", number)
    if match is None or (len(marks) > 1 and match[3]):
        return None
    return f"{match[1]}{re.sub(separator, '', match[2])}{(match[3] or '').replace(',', '.')}{match[4] or ''}"


def _reason(text: str, thousands: str, marks: set[str]) -> str:
    if len(marks) > 1:
        return (
            f"{shown(text)} can't be read, because the column has both . and , in its numbers; set --thousands , or ."
        )
    other_mark = "." if thousands == "," else ","
    return (
        f"{shown(text)} has irregular groups of digits for the separator {thousands!r}; write --thousands {other_mark} "
        f"if {thousands} is the decimal mark"
    )


def note_ambiguous(raw: RawTable, names: Collection[str]) -> None:
    """Add a problem for each number such as 1.000 in a column that also has numbers with commas.

    There, a point probably separates thousands, so that 1.000 is not 1.
    """
    for name in set(names) & set(raw.columns):
        column = raw.table.column(name).combine_chunks()
        if not pa.types.is_string(column.type) or not pc.any(pc.match_substring(column, ",")).as_py():
            continue
        is_ambiguous = pc.match_substring_regex(column, r"^[\s\"']*[+-]?[0-9]{1,3}(?:\.[0-9]{3})+[\s\"']*$")
        if pc.any(is_ambiguous).as_py():
            reason = (
                "can have a separator of thousands or a decimal point, because other numbers have commas; "
                "name the separator of thousands (--thousands . or --thousands ,)"
            )
            texts = pc.binary_join_element_wise(column, reason, " ")
            raw.problems.add(name, pc.if_else(is_ambiguous, texts, pa.scalar(None, pa.string())))


def parse_time(value: object) -> int:
    """Return a time as unix seconds, without its fraction of a second.

    ``value`` is a number or its text (decimal, with a point or an exponent, or hexadecimal), or ISO text, which is UTC
    unless it names a zone. Raises ``ValueError`` with the likely unit for any other value.
    """
    text = str(value).strip().strip("\"'").strip()
    if isinstance(value, bytes) or _HEX_TIME.fullmatch(text):
        return _of_number(Decimal(whole_number(value)), value)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ValueError(f"{shown(value)} is not a time; {_FORMS}")
        return _of_number(Decimal(value), value)
    if _NUMBER.fullmatch(text):
        return _of_number(Decimal(text), value)
    return _of_text(text, value)


def _of_number(number: Decimal, value: object) -> int:
    if _COMPACT_DATE.fullmatch(f"{number:f}"):
        raise ValueError(f"{shown(value)} is a date without separators; write ISO text, for example 2026-11-20")
    for units in _PER_SECOND:
        if FIRST_SECOND * units <= number < LAST_SECOND * units:
            return int(number // units)
    if number <= 0:
        raise ValueError(f"{shown(value)} is not a time: {NO_TIME}")
    raise ValueError(f"{shown(value)} is not a time between 2009 and 2100{_likely_unit(number)}; {_FORMS}")


def _likely_unit(number: Decimal) -> str:
    """Return which unit the number probably has, as the end of a sentence; empty if there is none."""
    for name, epoch in _EXCEL_EPOCHS.items():
        if FIRST_SECOND <= epoch.timestamp() + float(min(number, Decimal(10**7))) * _DAY < LAST_SECOND // 2:
            day = (epoch + timedelta(days=float(number))).strftime("%Y-%m-%d %H:%M:%S")
            return f"; it looks like a day number of a spreadsheet ({day}, counted from {name})"
    return ", so it is perhaps a block number or the time in another unit" if number < FIRST_SECOND else ""


def _of_text(text: str, value: object) -> int:
    try:
        instant = datetime.fromisoformat(_ISO_SPACE.sub("", text))
    except ValueError:
        raise ValueError(f"{shown(value)} is not a time; {_FORMS}") from None
    seconds = to_unix(instant if instant.tzinfo else instant.replace(tzinfo=UTC))
    if not FIRST_SECOND <= seconds < LAST_SECOND:
        raise ValueError(f"{shown(value)} is not between 2009 and 2100, and no chain is older; {_FORMS}")
    return seconds
