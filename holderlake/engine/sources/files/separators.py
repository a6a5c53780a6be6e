"""Remove separators of thousands and decimal commas from columns of numbers."""

from __future__ import annotations

import re
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.engine.sources.rows.raw import RawTable


def without_separators(
    raw: RawTable, names: Collection[str], thousands: str | None, has_decimal_comma: bool
) -> RawTable:
    """Return the file with plain numbers in the text columns ``names``.

    Plain numbers have no separators of thousands, and a decimal point.

    ``thousands`` is the separator. A number whose separators are not between thousands is added to the problems,
    because 1.5 would become 15. The groups may have two digits, as in India, but the last one has three.
    """
    if not thousands and not has_decimal_comma:
        _note_ambiguous(raw, names)
        return raw
    mark = "," if has_decimal_comma else "."
    separator = re.escape(thousands or "")
    grouped = rf"[0-9]{{1,3}}(?:{separator}[0-9]{{2,3}})*{separator}[0-9]{{3}}|" if thousands else ""
    point = re.escape(mark)
    number = rf"^[\s\"']*[+-]?(?:{grouped}[0-9]*)(?:{point}[0-9]*)?(?:[eE][+-]?[0-9]+)?[\s\"']*$"
    suspicious = f"[{separator}{'.' if has_decimal_comma else ''}]"
    table = raw.table
    for name in set(names) & set(raw.columns):
        column = table.column(name).combine_chunks()
        if not pa.types.is_string(column.type):
            continue
        is_number = pc.match_substring_regex(column, number)
        is_wrong = pc.and_(pc.match_substring_regex(column, suspicious), pc.invert(is_number))
        if pc.any(is_wrong).as_py():
            reason = f"its separators do not separate thousands by {thousands!r}" if thousands else "it has a point"
            texts = pc.binary_join_element_wise(column, f"is not a number with a decimal {_NAMES[mark]}: {reason}; "
                                                "check --thousands and --decimal-comma", " ")  # fmt: skip
            raw.problems.add(name, pc.if_else(is_wrong, texts, pa.scalar(None, pa.string())))
        plain = pc.replace_substring(column, thousands, "") if thousands else column
        plain = pc.replace_substring(plain, ",", ".") if has_decimal_comma else plain
        table = table.set_column(table.column_names.index(name), name, pc.if_else(is_number, plain, column))
    return raw.over(table)


def _note_ambiguous(raw: RawTable, names: Collection[str]) -> None:
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
                "name the separators (--thousands . --decimal-comma, or --thousands ,)"
            )
            texts = pc.binary_join_element_wise(column, reason, " ")
            raw.problems.add(name, pc.if_else(is_ambiguous, texts, pa.scalar(None, pa.string())))


_NAMES = {",": "comma", ".": "point"}
