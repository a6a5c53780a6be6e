"""The rules of a store: the thresholds by which maps classify addresses, stored in the catalogue."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holderlake.core.contract.rules import Rules
from holderlake.engine.catalog.changelog import EVERY_PAST, note_change

SCORE_VERSION: Final = 2
"""Version of the formula of the service score (``queries.metrics``).

In version 2, time nodes connect holders, which changes the groups that the score compares.
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
    return rules.model_dump() | {"score_version": SCORE_VERSION}


def open_rules(catalog: sqlite3.Connection, chosen_rules: Rules | None) -> RulesInForce:
    """Store ``chosen_rules`` and return them. If ``chosen_rules`` is None, return the stored rules.

    New rules change answers as of any second, so a change is added to the change log. If ``chosen_rules`` equals the
    stored rules, nothing is written, so opening a store does not wait for a running import.
    """
    row = catalog.execute(_READ).fetchone()
    stored_rules = Rules.model_validate_json(row[0]) if row else Rules()
    if chosen_rules is None or (row and chosen_rules == stored_rules):
        return RulesInForce(stored_rules)
    (has_histories,) = catalog.execute(_HAS_HISTORIES).fetchone()
    changed = _differences(stored_rules, chosen_rules) if row or has_histories else {}
    catalog.execute(_SAVE, (chosen_rules.model_dump_json(),))
    if changed:
        note_change(catalog, EVERY_PAST)
    return RulesInForce(chosen_rules, changed)


def _differences(old_rules: Rules, new_rules: Rules) -> dict[str, tuple[Any, Any]]:
    old_values, new_values = rules_in_force(old_rules), rules_in_force(new_rules)
    return {name: (old_values[name], new_values[name]) for name in new_values if old_values[name] != new_values[name]}
