"""The rules of a store: the thresholds by which maps classify addresses, stored in the catalogue."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from holderlake.engine.catalog.changelog import EVERY_PAST, note_change
from holderlake.engine.records import Rules

SCORE_VERSION: Final = 2
"""Version of the formula of the service score (``queries.metrics``).

In version 2, time nodes connect holders, which changes the entities that the score compares.
"""

_READ: Final = "SELECT value FROM settings WHERE name = 'rules'"
_SAVE: Final = "INSERT OR REPLACE INTO settings VALUES ('rules', ?)"
_HAS_HISTORIES: Final = "SELECT EXISTS (SELECT 1 FROM histories)"


@dataclass(frozen=True)
class RulesInForce:
    """The rules of an opened store.

    ``changed`` has the rules that changed since the store was last opened: (old value, new value) by name of the rule.
    """

    rules: Rules
    changed: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


def rules_in_force(rules: Rules) -> dict[str, Any]:
    """Return the rules as plain data: numbers, a sorted list of addresses, and the version of the score's formula.

    The same data is the body of ``GET /v0/x/rules``. Two maps can be compared only if this data is equal for both.
    """
    return asdict(rules) | {"time_allowed": sorted(rules.time_allowed), "score_version": SCORE_VERSION}


def open_rules(catalog: sqlite3.Connection, chosen_rules: Rules | None) -> RulesInForce:
    """Store ``chosen_rules`` and return them. If ``chosen_rules`` is None, return the stored rules.

    New rules change answers as of any second, so a change is added to the change log. If ``chosen_rules`` equals the
    stored rules, nothing is written, so opening a store does not wait for a running import.
    """
    row = catalog.execute(_READ).fetchone()
    stored_rules = _from_text(row[0]) if row else Rules()
    if chosen_rules is None or (row and chosen_rules == stored_rules):
        return RulesInForce(stored_rules)
    (has_histories,) = catalog.execute(_HAS_HISTORIES).fetchone()
    changed = _differences(stored_rules, chosen_rules) if row or has_histories else {}
    catalog.execute(_SAVE, (_text(chosen_rules),))
    if changed:
        note_change(catalog, EVERY_PAST)
    return RulesInForce(chosen_rules, changed)


def _differences(old_rules: Rules, new_rules: Rules) -> dict[str, tuple[Any, Any]]:
    old_values, new_values = rules_in_force(old_rules), rules_in_force(new_rules)
    return {name: (old_values[name], new_values[name]) for name in new_values if old_values[name] != new_values[name]}


def _text(rules: Rules) -> str:
    return json.dumps(asdict(rules), default=sorted)


def _from_text(text: str) -> Rules:
    plain = json.loads(text)
    names = {field.name for field in fields(Rules)}
    values = {name: value for name, value in plain.items() if name in names}
    return Rules(**(values | {"time_allowed": frozenset(values.get("time_allowed", ()))}))
