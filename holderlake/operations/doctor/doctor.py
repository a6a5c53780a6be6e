"""``holderlake doctor``: check settings, services and files, with advice for each problem."""

from __future__ import annotations

import asyncio
import difflib
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from holderlake.core.contract import exact_json
from holderlake.core.contract.requests import ChainsRequest
from holderlake.core.contract.rules import MapRules
from holderlake.core.contract.times import utc_now
from holderlake.core.dagster.runs import REPEATED
from holderlake.core.decoding.answers import chain_ids
from holderlake.core.ingest.decode_queue import provider_error
from holderlake.core.ingest.lacking import lacking
from holderlake.core.lake.lake import LakeError
from holderlake.core.provider.client import Response
from holderlake.core.provider.errors import ProviderError
from holderlake.core.settings import Settings, SettingsError, load_settings
from holderlake.core.storage.atomic_files import full_disk, is_full
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.core.units import counted
from holderlake.core.warehouse.warehouse import WarehouseError
from holderlake.core.workspace import Workspace, make_workspace, state_of
from holderlake.engine.errors import EngineError, UnusableStore
from holderlake.engine.settings import EngineSettings, store_folder
from holderlake.operations.alerts.destinations import destinations_of
from holderlake.operations.alerts.outbox import Outbox
from holderlake.operations.alerts.settings import AlertSettings, alerts_database
from holderlake.operations.doctor.file_checks import Finding, check_files
from holderlake.operations.follow.followers import followers
from holderlake.operations.history.instance import own_dagster_home, prepare_dagster_home
from holderlake.operations.history.steps import history_steps
from holderlake.operations.maintenance.upgrade import plan
from holderlake.presentation import console
from holderlake.scale.settings import iceberg_folder
from holderlake.sources.sample_world import sample_rules
from holderlake.sources.settings import SourceSettings

_MIN_FREE = 1 << 30


def examine(quiet: bool, as_json: bool) -> bool:
    """Run all checks, print the findings, and return whether there is no problem."""
    findings = _each_cause_once([_versions(), *_checks_with_settings()])
    shown_findings = [finding for finding in findings if not (quiet and finding.fine)]
    if as_json:
        console.as_json([asdict(finding) for finding in shown_findings])
    elif shown_findings:
        marks = {True: "ok", False: "!!"}
        lines = ((marks[finding.fine], finding.what, finding.found, finding.advice) for finding in shown_findings)
        console.rows("", ("", "what", "found", "what to do"), lines)
    return all(finding.fine for finding in findings)


def _each_cause_once(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out problems with the same cause as another one: the one with the most advice stays."""
    stays: dict[str, Finding] = {}
    for finding in findings:
        cause = finding.found.partition("; ")[0]
        if not finding.fine and len(finding.advice) > len(stays.setdefault(cause, finding).advice):
            stays[cause] = finding
    return [finding for finding in dict.fromkeys(findings) if finding.fine or finding in stays.values()]


def _versions() -> Finding:
    names = ("dagster", "duckdb", "pyarrow", "httpx", "pydantic")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    is_supported = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Finding(
        "versions",
        is_supported,
        f"Python {sys.version.split()[0]}, {versions}",
        "" if is_supported else "use Python 3.11 to 3.13",
    )


def _checks_with_settings() -> list[Finding]:
    try:
        settings = load_settings()
    except SettingsError as error:
        return [Finding("settings", False, str(error), "correct holderlake.toml or the environment")]
    workspace = make_workspace(settings)
    checks: list[Callable[[], Finding]] = [
        lambda: _settings(workspace.settings),
        *(partial(_unscheduled_set, sentence) for sentence in workspace.settings.unscheduled_sets()),
        lambda: _disk(settings.home),
        lambda: _formats(workspace),
        lambda: _dagster(settings),
        *_provider_checks(workspace),
        *([lambda: _store(settings)] if store_folder(settings).exists() else []),
        *([lambda: _negative_balances(settings)] if store_folder(settings).exists() else []),
        *([lambda: _inexact_balances(settings)] if store_folder(settings).exists() else []),
        *([lambda: _stale_partitions(workspace)] if store_folder(settings).exists() else []),
        lambda: _incomplete(workspace),
        lambda: _alerts(settings),
        *([lambda: _iceberg(workspace)] if iceberg_folder(settings).exists() else []),
        *(partial(_node, settings, chain) for chain in settings.section(SourceSettings).node_chains),
        *([lambda: _followers(settings)] if settings.section(SourceSettings).followed_chains else []),
    ]
    findings = [*(_safely(check) for check in checks), *check_files(workspace)]
    return [_while_full(finding) for finding in findings] if is_full(settings.home) else findings


def _while_full(finding: Finding) -> Finding:
    """Return a problem without its remedy, which may delete or move files that only can't be read now."""
    is_problem = not finding.fine and finding.what != "disk"
    return (
        replace(finding, advice="free space on the disk, then run 'holderlake doctor' again") if is_problem else finding
    )


def _settings(settings: Settings) -> Finding:
    watched, chains = sum(map(len, settings.watchlist.values())), len(settings.watchlist)
    text = f"home {settings.home.resolve()}, {counted(watched, 'token')} on {counted(chains, 'chain')} watched"
    return Finding(
        "settings", bool(watched), text, "" if watched else "add tokens under [watchlist] in holderlake.toml"
    )


def _unscheduled_set(sentence: str) -> Finding:
    problem, _, advice = sentence.partition(": ")
    return Finding("address sets", False, problem, advice)


def _formats(workspace: Workspace) -> Finding:
    try:
        steps = plan(workspace, lambda: history_steps(workspace.settings.dagster_home))
    except (DatabaseError, EngineError, LakeError, WarehouseError) as error:
        return Finding("formats", False, str(error))
    if steps:
        parts = ", ".join(step.part for step in steps)
        return Finding("formats", True, f"of an earlier version: {parts}", "'holderlake home upgrade' updates them now")
    return Finding("formats", True, "all parts of the home have the formats of this version")


def _safely(check: Callable[[], Finding]) -> Finding:
    """Run a check. An unexpected error becomes a finding, so that the other checks still run."""
    try:
        return check()
    except Exception as error:
        return Finding("doctor", False, f"{type(error).__name__}: {error}", "see the other lines; then report this one")


def _iceberg(workspace: Workspace) -> Finding:
    try:
        from holderlake.scale.iceberg.tables import tables_of
    except ModuleNotFoundError:
        return Finding("iceberg", True, "not checked: pyiceberg is not installed")
    comparison = tables_of(workspace).compare()
    if comparison.is_current:
        return Finding("iceberg", True, f"publication {comparison.id} has all partitions of the lake")
    lacking, extra = sum(comparison.added.values()), sum(comparison.removed.values())
    text = f"{counted(lacking, 'file')} of the lake not published, {counted(extra, 'published file')} replaced"
    return Finding("iceberg", False, text, "'holderlake lake publish' brings the tables up to date")


def _disk(home: Path) -> Finding:
    home.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(home).free
    writable = os.access(home, os.W_OK)
    if is_full(home):
        return Finding("disk", False, full_disk(home), "free at least 1 GiB, then run 'holderlake doctor' again")
    advice = "" if free > _MIN_FREE and writable else "set HOLDERLAKE_HOME to a writable folder with free space"
    return Finding("disk", free > _MIN_FREE and writable, f"{free / 2**30:.1f} GiB free", advice)


def _dagster(settings: Settings) -> Finding:
    prepare_dagster_home(settings.dagster_home)
    return Finding("dagster", True, f"state in {own_dagster_home(settings.dagster_home) or settings.dagster_home}")


def _provider_checks(workspace: Workspace) -> list[Callable[[], Finding]]:
    """Return the checks of provider and rules. If the provider cannot be used, they are one finding with the reason."""
    try:
        workspace.check()
        chains, rules = asyncio.run(_fetch(workspace))
    except Exception as error:  # also of a damaged file, which has its own line
        reason = str(error)
        advice = "check [provider] and the API key; 'holderlake serve' runs your own"
        is_of_provider = isinstance(error, ProviderError | SettingsError)
        return [lambda: Finding("provider", False, reason, advice if is_of_provider else "")]
    return [lambda: _provider(workspace, chains), lambda: _rules(workspace, rules)]


def _provider(workspace: Workspace, chains: list[str]) -> Finding:
    direct = "; maps and holders come straight from its engine" if workspace.filler else ""
    text = f"{_name(workspace)} answers, {counted(len(chains), 'chain')}{direct}"
    unlisted = sorted(set(workspace.settings.watchlist) - set(chains))
    if unlisted:
        near = difflib.get_close_matches(unlisted[0], chains, 1, 0.5)
        advice = f"did you mean {near[0]}?" if near else f"it lists {', '.join(sorted(chains))}"
        return Finding("provider", False, f"{text}, but not {', '.join(unlisted)} of the watchlist", advice)
    return Finding("provider", True, text)


def _name(workspace: Workspace) -> str:
    settings = workspace.settings
    store = "the sample world" if settings.provider.local == "sample" else f"your store {store_folder(settings)}"
    return settings.provider.url or f"the embedded service over {store}"


async def _fetch(workspace: Workspace) -> tuple[list[str], str | None]:
    """Return the provider's chains, which it must answer now, and its rules as JSON, None if it publishes none."""
    async with workspace.fetcher("doctor") as fetcher:
        fetched = await fetcher.fetch(ChainsRequest(), f"known {utc_now():%Y-%m-%d}", refresh=True)
        return listed(fetched), await fetcher.rules()


def _rules(workspace: Workspace, published: str | None) -> Finding:
    """Report the thresholds by which maps are computed: the engine store's, or those that the provider publishes."""
    settings = workspace.settings
    if settings.provider.url:
        if published is None:
            text = "the provider does not publish its rules (only Holderlake's own service does)"
            return Finding("rules", True, text)
        rules = MapRules.model_validate_json(published).model_dump(include=set(MapRules.model_fields))
        return Finding("rules", True, listed_rules(rules))
    from holderlake.engine.catalog.rules import rules_in_force
    from holderlake.sources.store import engine_rules

    if settings.provider.local == "store":
        return Finding("rules", True, listed_rules(rules_in_force(engine_rules(settings))))
    ignored = settings.section(EngineSettings).thresholds.model_fields_set
    advice = "the sample world has its own rules; [engine.thresholds] apply to your own store" if ignored else ""
    return Finding("rules", True, listed_rules(rules_in_force(sample_rules())), advice)


def _incomplete(workspace: Workspace) -> Finding:
    """Count the partitions that lack a part of the requested data."""
    lacks = {
        manifest.place: lacking(workspace.lake, manifest)
        for manifest in workspace.lake.manifests()
        if manifest.unanswered or manifest.failures
    }
    open_places = {place: failures for place, failures in lacks.items() if failures}
    if not open_places:
        return Finding("partitions", True, "no partition lacks a part of the requested data")
    codes = sorted(set().union(*(failures.values() for failures in open_places.values())))
    text = f"{counted(len(open_places), 'partition')} without a part of the requested data ({', '.join(codes)})"
    return Finding("partitions", False, text, REPEATED)


def _store(settings: Settings) -> Finding:
    """Compare the sizes of the store's files with the sizes in its catalogue.

    ``holderlake store verify`` compares the checksums.
    """
    from holderlake.engine.store.unlisted import QUARANTINE
    from holderlake.engine.store.verify import verify

    root = store_folder(settings)
    result = verify(root, reads=False)
    if result.damaged:
        first_damage = result.damaged[0]
        problem = (
            first_damage.problem if str(root) in first_damage.problem else f"{first_damage.path} {first_damage.problem}"
        )
        ellipsis = f" and {len(result.damaged) - 1} more" if len(result.damaged) > 1 else ""
        return Finding("store", False, f"{problem}{ellipsis}", first_damage.remedy)
    advice = "'holderlake store verify' compares the files with their checksums"
    if result.quarantined:
        quarantined = counted(result.quarantined, "file", "is")
        advice += f"; {quarantined} in {root / QUARANTINE}, which 'holderlake delete quarantine' empties"
    return Finding("store", True, f"{counted(result.files, 'file')}, {result.bytes / 1e6:,.1f} MB in {root}", advice)


def _negative_balances(settings: Settings) -> Finding:
    """Count the addresses in the engine's store with a balance below zero."""
    from holderlake.engine.queries.negative_balances import negative_counts
    from holderlake.sources.store import open_own_store

    try:
        with open_own_store(settings) as store:
            counts = negative_counts(store, utc_now())
    except UnusableStore as error:
        return Finding("negative balances", False, str(error))
    tokens = len(counts)
    text = f"{counted(sum(counts.values()), 'address')} of {counted(tokens, 'token')} below zero" if tokens else "none"
    advice = "'holderlake store negative-balances' lists them; import the transfers that are missing" if tokens else ""
    return Finding("negative balances", True, text, advice)


def _stale_partitions(workspace: Workspace) -> Finding:
    """Count the partitions that were computed before the engine's store changed."""
    count = len(workspace.stale_partitions())
    text = f"{counted(count, 'partition')} computed before your store changed" if count else "as your store is now"
    advice = "'holderlake backfill --stale' computes them again, free" if count else ""
    return Finding("computed partitions", not count, text, advice)


def _inexact_balances(settings: Settings) -> Finding:
    """Count the tokens whose balances differ from those of their contracts, by their last comparison with a node."""
    from holderlake.sources.rpc.verified import read_verified

    checked = read_verified(store_folder(settings))["balances"].to_pylist()
    if not checked:
        return Finding(
            "balances", True, "no token was compared with its contract", "'holderlake import verify' compares them"
        )
    count = checked.count("different")
    advice = (
        "their contracts change balances without transfers, as rebasing tokens and tokens with a fee do: the balances "
        "here are not exact; 'holderlake import verify' names the causes"
    )
    text = f"{counted(len(checked), 'token')} compared, {count:,} with other balances than the contract"
    return Finding("balances", True, text, advice if count else "")


def listed_rules(rules: Mapping[str, Any]) -> str:
    """Return rules as one line of text, for example ``supernode_degree 10,000, …``."""
    return ", ".join(f"{name} {_plain(value)}" for name, value in rules.items())


def _plain(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else " ".join(value) or "none"


def _alerts(settings: Settings) -> Finding:
    try:
        destinations = [open_destination() for open_destination in destinations_of(settings).values()]
    except SettingsError as error:
        return Finding("alerts", False, str(error), "correct [alerts] in holderlake.toml or the environment")
    try:
        book = Outbox(state_of(settings, alerts_database(settings))).deliveries()
    except DatabaseError as error:
        problem, _, advice = str(error).partition("; ")
        return Finding("alerts", False, problem, advice)
    deliveries = [delivery for alert_deliveries in book.values() for delivery in alert_deliveries]
    late = [delivery for delivery in deliveries if delivery.state not in ("sent", "given_up") and delivery.error]
    names = " and ".join(destination.description for destination in destinations)
    text = f"{counted(len(settings.section(AlertSettings).in_force), 'rule')}, delivered to {names}"
    if late:
        return Finding(
            "alerts",
            False,
            f"{text}; {len(late)} could not be delivered: {late[-1].error}",
            "test it with 'holderlake alerts test'; waiting alerts are sent when it answers again",
        )
    return Finding("alerts", True, text)


def _followers(settings: Settings) -> Finding:
    states = {state.chain: state for state in followers(store_folder(settings))}
    followed = settings.section(SourceSettings).followed_chains
    idle = [chain for chain in followed if chain not in states or not states[chain].is_running]
    text = "; ".join(str(states.get(chain, f"{chain}: never followed")) for chain in followed)
    advice = "'holderlake ui' runs Dagster, whose sensor 'followers' starts them" if idle else ""
    return Finding("followers", not idle, text, advice)


def _node(settings: Settings, chain: str) -> Finding:
    from holderlake.sources.nodes.imports import newest_block

    try:
        block = asyncio.run(newest_block(settings, chain))
    except (EngineError, SettingsError, ValueError) as error:
        return Finding(f"nodes of {chain}", False, str(error), f"check the endpoints of sources.rpc.{chain}")
    return Finding(f"nodes of {chain}", True, f"newest block {block:,}")


def listed(fetched: Response) -> list[str]:
    """Return the ids of the chains in an answer. Raises ``MalformedAnswer`` if it cannot be decoded."""
    try:
        return chain_ids(fetched.raw, fetched.fetched_at)
    except exact_json.MalformedAnswer as error:
        raise provider_error(fetched, error) from error
