"""Open the engine's store with the rules of the settings, report changed rules, and list its files of transfers."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holderlake.core.contract.chains import BURN_ADDRESSES
from holderlake.core.contract.rules import Rules
from holderlake.core.contract.times import from_unix
from holderlake.core.settings import Settings
from holderlake.engine.settings import EngineSettings, store_folder

if TYPE_CHECKING:
    import pyarrow as pa

    from holderlake.core.workspace import Workspace
    from holderlake.engine.catalog.labels import AddressLabel
    from holderlake.engine.store.store import Store
    from holderlake.engine.warehouse_files import StoredTransfers

_log = logging.getLogger(__name__)

Say = Callable[[str], None]
"""A function that shows a message."""


def engine_rules(settings: Settings) -> Rules:
    """Return the engine's rules: the thresholds of the settings, and defaults for the others."""
    return Rules(**dict(settings.section(EngineSettings).thresholds))


def own_store_id(settings: Settings) -> str:
    """Return the provider id of the user's own store. The lake and the archive record it with the data."""
    return (
        "own store"
        if settings.section(EngineSettings).store is None
        else f"own store {store_folder(settings).resolve()}"
    )


def open_own_store(settings: Settings, say: Say | None = None) -> Store:
    """Open the user's own store, to which imports write, with the rules and indexed tokens of the settings."""
    root, rules, limit = store_folder(settings), engine_rules(settings), settings.section(EngineSettings).memory_limit
    return open_store(root, rules, limit, settings.section(EngineSettings).index_keys, say)


def name_address(workspace: Workspace, address: str, name: str) -> None:
    """Store the user's name of an address as a label of the user's own store, and load the warehouse.

    An empty name removes it. The label comes before those of label files.
    """
    from holderlake.engine.records import Label
    from holderlake.sources.labels import HAND

    with open_own_store(workspace.settings) as store:
        store.add_labels([Label(address, None, "names given in the explorer", name or None, precedence=HAND + 1)])
    workspace.warehouse.load(workspace.lake)


def open_store(
    root: Path,
    rules: Rules | None,
    memory_limit: str,
    index: Collection[tuple[str, str]] | None = None,
    say: Say | None = None,
) -> Store:
    """Open a store with rules and indexed tokens (chain, address).

    If ``rules`` or ``index`` is None, those recorded in the store apply. If rules have changed since the last opening,
    a message is given to ``say``; by default it is logged as a warning.
    """
    from holderlake.engine.store.store import Store

    store = Store(root, rules, memory_limit, index)
    if store.changed_rules:
        (say or partial(_log.warning, "%s"))(rules_changed(store.changed_rules))
    return store


def rules_changed(changed: Mapping[str, tuple[Any, Any]]) -> str:
    """Return a sentence with the changed rules, their effect, and the remedy for older maps.

    ``changed`` has (old value, new value) by rule.
    """
    listed = ", ".join(
        f"{name} from {_text(old_value)} to {_text(new_value)}" for name, (old_value, new_value) in changed.items()
    )
    return (
        f"The engine's rules changed ({listed}) and apply to new maps; maps in the lake keep their old figures until "
        "'holderlake backfill --stale' computes them again."
    )


def stored_transfers(root: Path) -> StoredTransfers | None:
    """Return the files of transfers in the store ``root``, for the warehouse; None if there is no store.

    A store that can't be read is reported in the log, and the result is None.
    """
    if not root.exists():
        return None
    from holderlake.engine.errors import EngineError
    from holderlake.engine.files.balances import BALANCES
    from holderlake.engine.store.store import Store
    from holderlake.engine.warehouse_files import LABELS, StoredTransfers

    files: dict[str, dict[tuple[str, str], list[Path]]] = {"transfers": {}, "openings": {}, "balances": {}}
    try:
        with Store(root) as store:
            generation, listing = store.generation(), store.view().listing
            for key in listing.numbers:
                for part in listing.parts_of(key):
                    files[part.folder].setdefault(key, []).append(root / part.paths[0])
                    files["balances"].setdefault(key, []).append(root / part.paths[2])
    except EngineError as error:
        _log.warning("the view 'transfers' keeps its rows, because the store can't be read: %s", error)
        return None
    names = sorted(path.name for folder in files.values() for paths in folder.values() for path in paths)
    candidates = [*(root / "entities").glob("[!.]*.parquet"), root / "verified.parquet", root / "undone.parquet"]
    findings = sorted(path for path in candidates if path.exists())
    names += [f"{path.name} {path.stat().st_mtime_ns}" for path in findings]
    state = (str(root.resolve()), generation, names, BALANCES.names, LABELS.names)
    version = hashlib.sha256(repr(state).encode()).hexdigest()[:16]
    sums = {root / path: sum_ for path, sum_ in listing.sums.items()}
    return StoredTransfers(version, files, lambda: _tables(root), findings, sums)


def _tables(root: Path) -> dict[str, pa.Table]:
    """Return the tables tokens, labels and changes of a store, in the schemas of ``engine.warehouse_files``."""
    import pyarrow as pa

    from holderlake.engine.store.store import Store
    from holderlake.engine.warehouse_files import CHANGES, LABELS, TOKENS

    with Store(root) as store:
        histories = {(history.chain, history.token_address): history for history in store.histories()}
        infos = store.tokens(list(histories))
        labels = _labels(store)
        numbers, first_times = store.first_changes()
    tokens = [
        (
            *key,
            info.symbol,
            info.name,
            info.decimals,
            info.has_assumed_decimals,
            info.standard,
            history.transfers,
            *times,
        )
        for key, history in sorted(histories.items())
        if (info := infos.get(key)) and (times := (from_unix(history.first_time), from_unix(history.last_time)))
    ]
    return {
        "tokens": pa.Table.from_pylist([dict(zip(TOKENS.names, row, strict=True)) for row in tokens], TOKENS),
        "labels": pa.Table.from_pylist(labels, LABELS),
        "changes": pa.table([numbers, pa.array(first_times, pa.int64()).cast(pa.timestamp("s"))], CHANGES),
    }


def _labels(store: Store) -> list[dict[str, Any]]:
    """Return the rows of ``labels``: one for each time in which an address has one label on a chain."""
    from holderlake.engine.catalog.labels import addresses_with_periods, labelled_addresses

    with_periods, starts = store.read(addresses_with_periods), store.period_starts()
    rows: list[dict[str, Any]] = []
    for chain, addresses in store.read(labelled_addresses).items():
        changing = [address for address in addresses if address in with_periods]
        of_address: dict[str, list[dict[str, Any]]] = {}
        for start in [0, *starts]:
            listed = changing if start else addresses
            labels = store.labels(listed, chain, start)
            for address in listed:
                _extend(of_address.setdefault(address, []), chain or None, address, labels.get(address), start)
        rows += [row for periods in of_address.values() for row in periods]
    return rows


def _extend(
    periods: list[dict[str, Any]], chain: str | None, address: str, label: AddressLabel | None, start: int
) -> None:
    """Add the label of an address from a second on to its periods, unless it continues the last one."""
    facts = {"chain": chain, "address": address, "kind": _kind(address, label), "label": label.name} if label else None
    last = periods[-1] if periods and periods[-1]["valid_to"] is None else None
    if last is None or facts is None or not facts.items() <= last.items():
        if last is not None:
            last["valid_to"] = from_unix(start - 1)
        if facts is not None:
            periods.append(facts | {"valid_from": from_unix(start) if start else None, "valid_to": None})


def _kind(address: str, label: AddressLabel) -> str | None:
    if address in BURN_ADDRESSES:
        return "burn"
    return "cex" if label.is_cex else "dex" if label.is_dex else "contract" if label.is_contract else None


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
