"""Remove separators of thousands from the numbers of a column, and write its decimal marks as points."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.contract.chains.addresses import shown
from holderlake.engine.sources.rows.raw import RawTable

_LOOKALIKES: Final = {" ": " \u00a0\u202f\u2009", "'": "'\u2019"}
"""Separators that look alike: with one of them, all of them are removed."""


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
    marks = {mark for text in texts for mark in _marks(thousands) if text is not None and mark in text}
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


def _marks(thousands: str) -> list[str]:
    return [mark for mark in (".", ",") if mark != thousands]


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
