"""``holderlake store``: verify and rebuild the user's own store, delete its quarantine, and print a report."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from holderlake.core.contract.chains import ADDRESSES_OF_64_DIGITS, BITCOINS, one_spelling
from holderlake.core.contract.times import from_unix
from holderlake.core.settings import Settings, SettingsError
from holderlake.core.units import counted
from holderlake.engine.catalog.catalog_copy import CATALOG
from holderlake.engine.settings import EngineSettings, store_folder
from holderlake.engine.store.rebuild import rebuild
from holderlake.engine.store.store import Store
from holderlake.engine.store.unlisted import QUARANTINE
from holderlake.engine.store.verify import StoreCheck, describe_quarantine, empty_quarantine, verify
from holderlake.errors import SomeFailed
from holderlake.presentation import console
from holderlake.sources.store import open_own_store


def verify_store(settings: Settings, as_json: bool) -> None:
    """Check all files of the user's own store, and print a report. Raises ``SomeFailed`` if files are damaged."""
    root = _existing(settings)
    with console.progress("verifying", None) as bar:
        task = bar.task_ids[0]
        result = verify(root, lambda size: bar.update(task, total=size), lambda size: bar.advance(task, size))
    if as_json:
        console.as_json(asdict(result))
    else:
        console.out.print(_summary(root, result), markup=False, soft_wrap=True)
        if result.damaged:
            lines = ((damage.path, damage.problem, damage.remedy) for damage in result.damaged)
            console.rows("Damaged", ("file", "problem", "what to do"), lines)
    if result.damaged:
        raise SomeFailed(
            f"damaged files in {root}: {len(result.damaged)}; run 'holderlake store rebuild' to repair them"
        )


def rebuild_store(settings: Settings, as_json: bool) -> None:
    """Repair the user's own store and print a report. Raises ``SomeFailed`` if transfers have to be imported again."""
    root = _existing(settings)
    done = rebuild(
        root, settings.section(EngineSettings).memory_limit, lambda text: console.err.print(text, markup=False)
    )
    if as_json:
        corrections = [
            {"chain": chain, "token_address": token, "times": [from_unix(second) for second in seconds]}
            for (chain, token), seconds in done.corrections.items()
        ]
        console.as_json(asdict(done) | {"corrections": corrections})
    else:
        state = {"kept": "kept", "copy": "restored from its copy", "files": "rebuilt from the files"}[done.catalog]
        console.out.print(
            f"The catalogue was {state}, {counted(len(done.remade), 'derived file', 'was')} rebuilt, and "
            f"{counted(done.added, 'transfer')} "
            f"of unlisted files added; {counted(len(done.set_aside), 'file', 'is')} in {root / QUARANTINE}. "
            "Restart services that use this store.",
            markup=False,
            soft_wrap=True,
        )
        if done.catalog == "files":
            console.out.print(
                "Labels, token lists and indexed tokens were only in the catalogue: import them again.", markup=False
            )
        for (chain, token), seconds in done.corrections.items():
            times = " ".join(f"--balances-at {from_unix(second):%Y-%m-%dT%H:%M:%SZ}" for second in sorted(seconds))
            console.out.print(
                f"The corrections of {token} on {chain} are not kept, so its balances are sums of its transfers. Read "
                f"them again: holderlake import node --chain {chain} --token {token} {times}",
                markup=False,
                soft_wrap=True,
            )
    with open_own_store(settings) as store:
        misspelt = [
            f"{history.token_address} on {history.chain}"
            for history in store.histories()
            if history.chain in ADDRESSES_OF_64_DIGITS | BITCOINS
            and _has_other_spellings(store, history.chain, history.token_address)
        ]
    if misspelt:
        raise SomeFailed(
            "these tokens have addresses in spellings of an earlier version, so that one address may have several "
            f"balances; import their files again into a new home: {', '.join(misspelt)}"
        )
    if done.lost:
        token_texts = ", ".join(f"{address} on {chain}" for chain, address in done.lost)
        raise SomeFailed(f"damaged transfers were moved to quarantine; import these tokens again: {token_texts}")


def _has_other_spellings(store: Store, chain: str, token: str) -> bool:
    """Return whether a token, or an address in its transfers, is not in the chain's one spelling."""
    ends = store.query(
        "SELECT DISTINCT unnest([from_address, to_address]) AS address FROM read_parquet($files) "
        "WHERE chain = $chain AND token_address = $token",
        {"chain": chain, "token": token, "files": store.files()},
    )
    return any(one_spelling(chain, address) != address for address in [token, *ends["address"].to_pylist()])


def delete_quarantine(settings: Settings, yes: bool, as_json: bool) -> None:
    """Delete the quarantined files of the user's own store if ``yes`` is true, else only count them."""
    root = _existing(settings)
    files, size = describe_quarantine(root)
    if yes:
        empty_quarantine(root)
    if as_json:
        console.as_json({"files": files, "bytes": size, "deleted": yes})
        return
    quarantine_text = f"{counted(files, 'file')} ({size / 1e6:,.1f} MB) in {root / QUARANTINE}"
    text = f"Deleted {quarantine_text}." if yes else f"{quarantine_text}."
    console.out.print(text, markup=False, soft_wrap=True)


def _existing(settings: Settings) -> Path:
    root = store_folder(settings)
    if not (root / "transfers").is_dir() and not (root / CATALOG).exists():
        raise SettingsError(
            f"{root} has no store; create it with 'holderlake import files' or 'holderlake import node'"
        )
    return root


def _summary(root: Path, result: StoreCheck) -> str:
    parts = [
        f"Checked {counted(result.files, 'file')} ({result.bytes / 1e6:,.1f} MB) of {root}: "
        f"{len(result.damaged)} damaged"
    ]
    if result.unlisted:
        parts.append(f"{len(result.unlisted)} not listed in the catalogue")
    if result.quarantined:
        parts.append(f"{result.quarantined} in quarantine ('holderlake delete quarantine')")
    return ", ".join(parts) + "."
