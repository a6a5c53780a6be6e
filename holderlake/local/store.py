"""Open the engine's store with the rules of the settings, and report changed rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holderlake.settings import Settings

if TYPE_CHECKING:
    from holderlake.engine.records import Rules
    from holderlake.engine.store.store import Store

Say = Callable[[str], None]
"""A function that shows a message."""


def engine_rules(settings: Settings) -> Rules:
    """Return the engine's rules: the thresholds of the settings, and defaults for the others."""
    from holderlake.engine.records import Rules

    chosen = settings.engine.thresholds.chosen()
    if "time_allowed" in chosen:
        chosen["time_allowed"] = frozenset(chosen["time_allowed"])
    return Rules(**chosen)


def open_own_store(settings: Settings, say: Say | None = None) -> Store:
    """Open the user's own store, to which imports write, with the rules and indexed tokens of the settings."""
    root, rules, limit = settings.engine_store, engine_rules(settings), settings.engine.memory_limit
    return open_store(root, rules, limit, settings.engine.index_keys, say)


def open_store(
    root: Path,
    rules: Rules | None,
    memory_limit: str,
    index: Collection[tuple[str, str]] | None = None,
    say: Say | None = None,
) -> Store:
    """Open a store with rules and indexed tokens (chain, address).

    If ``rules`` or ``index`` is None, those recorded in the store apply. If rules have changed since the last opening,
    a message is given to ``say``; by default it is printed on standard error.
    """
    from holderlake.engine.store.store import Store

    store = Store(root, rules, memory_limit, index)
    if store.changed_rules:
        (say or _print_error)(rules_changed(store.changed_rules))
    return store


def rules_changed(changed: Mapping[str, tuple[Any, Any]]) -> str:
    """Return a sentence with the changed rules, their effect, and the remedy for older maps.

    ``changed`` has (old value, new value) by rule.
    """
    listed = ", ".join(f"{name} from {_text(old)} to {_text(new)}" for name, (old, new) in changed.items())
    return (
        f"The engine's rules changed ({listed}) and apply to new maps; maps in the lake keep their old figures until "
        "they are fetched again with --refresh."
    )


def _text(value: Any) -> str:
    return ", ".join(value) or "none" if isinstance(value, list) else f"{value:,}"


def _print_error(text: str) -> None:
    from holderlake import console

    console.err.print(text, soft_wrap=True)
