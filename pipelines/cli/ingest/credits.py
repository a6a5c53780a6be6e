"""Reports of the commands: what landed, what was spent, what the warehouse holds. A plan's is in ``plan_report``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from holderlake import console
from holderlake.contract.prices import credits_text
from holderlake.contract.tables import TABLES
from holderlake.contract.times import utc_now
from holderlake.ingest.stream import Stream
from holderlake.ingest.streams.all import STREAMS
from holderlake.lake.lake import FAILURES
from holderlake.provider.broken_answers import BREAKAGES
from holderlake.provider.ledger.entries import IMPLAUSIBLE
from holderlake.provider.ledger.ledger import Problem
from holderlake.workspace import Workspace

if TYPE_CHECKING:
    from holderlake.service.billing.keys import Key, KeyStore, Usage

Grouping = Literal["endpoint", "day", "run", "token"]
UsageGrouping = Literal["key", "endpoint", "day"]


_PROBLEMS: Final = {IMPLAUSIBLE: "named credits that cannot be true (the price table's cost is booked)"}
_SHOWN: Final = 10
"""Lines of a long list."""


@dataclass(frozen=True)
class InLake:
    """What the lake holds of some partitions: rows by table, failures by code, and how many partitions are ``new``."""

    partitions: int
    new: int
    rows: dict[str, int]
    failures: list[dict[str, Any]]


def in_lake(
    workspace: Workspace,
    chains: Sequence[str],
    instants: Sequence[datetime],
    streams: Sequence[Stream],
    since: datetime,
) -> InLake:
    """Return what the lake holds of the families at the chains and instants; new is what was written ``since``."""
    wanted = {(stream.name, chain, instant) for stream in streams for chain in chains for instant in instants}
    held = [one for one in workspace.lake.manifests() if (one.family, one.chain, one.as_of) in wanted]
    rows = dict.fromkeys((table for stream in streams for table in stream.tables), 0)
    kinds: dict[str, dict[str, Any]] = {}
    for manifest in held:
        for name in rows.keys() & manifest.tables.keys():
            rows[name] += manifest.tables[name].rows
        for row in workspace.lake.rows(manifest, FAILURES).to_pylist() if manifest.failures else ():
            kind = kinds.setdefault(row["code"], {"code": row["code"], "requests": 0, "reason": row["reason"]})
            kind["requests"] += 1
    new = sum(one.written_at >= since and bool(one.covered) for one in held)
    return InLake(sum(bool(one.covered) for one in held), new, rows, list(kinds.values()))


def landed_report(
    found: InLake,
    chains: Sequence[str],
    instants: Sequence[datetime],
    spent: int,
    skipped_families: Mapping[str, str],
    as_json: bool,
) -> None:
    """Print rows by table, tables that the key's plan excludes, failures by code, and the credits ``spent`` this month.

    ``spent`` is in hundredths; ``skipped_families`` has the provider's reason by family.
    """
    tables = {stream.name: stream.tables for stream in STREAMS}
    skipped = {table: reason for name, reason in skipped_families.items() for table in tables[name]}
    if as_json:
        plain = {"partitions": found.partitions, "rows": found.rows, "skipped": skipped, "failures": found.failures}
        console.as_json(plain | {"credits_spent_hundredths": spent})
        return
    console.rows(
        f"In the lake: {len(chains)} chains, {len(instants)} instants",
        ("table", "rows", "a row is"),
        ((name, count, TABLES[name].row) for name, count in found.rows.items()),
    )
    if skipped:
        console.rows("Skipped: not part of the key's plan", ("table", "the provider's reason"), skipped.items())
    if found.failures:
        console.rows(
            "Not answered, or not readable (the rest landed)",
            ("code", "requests", "reason, for one"),
            _lines(found.failures),
        )
    console.out.print(f"Credits spent this month: {credits_text(spent)}")


def _lines(rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
    return [list(row.values()) for row in rows]


def credits_report(workspace: Workspace, by: Grouping, as_json: bool) -> None:
    """The ledger's totals and a break-down."""
    totals, lines = workspace.ledger.totals(), workspace.ledger.report(by)
    problems = workspace.ledger.problems()
    broken = [one for one in problems if one.name in BREAKAGES]
    if as_json:
        unknown = [asdict(one) for one in workspace.ledger.unsettled()]
        plain = asdict(totals) | {"unexplained": totals.unexplained}
        wasted = {name: sum(getattr(one, name) for one in broken) for name in ("calls", "spent", "reserved")}
        report = {"totals": plain, "unsettled": unknown, "by": by, "lines": [asdict(line) for line in lines]}
        console.as_json({**report, "problems": [asdict(one) for one in problems], "possibly_wasted": wasted})
        return
    console.rows(
        f"Credits by {by}",
        (by, "calls", "spent", "reserved"),
        ((line.name, line.calls, credits_text(line.spent), credits_text(line.reserved)) for line in lines),
    )
    set_ones = [ceiling for ceiling in totals.ceilings if ceiling.limit is not None]
    if set_ones:
        lines_of_ones = [
            (one.name, credits_text(one.limit or 0), credits_text(one.used), credits_text(one.left or 0))
            for one in set_ones
        ]
        console.rows("Ceilings", ("ceiling", "limit", "used", "left"), lines_of_ones)
    unsettled = workspace.ledger.unsettled()
    if unsettled:
        console.rows(
            "Calls whose outcome is not known (they count as spent)",
            ("run", "endpoint", "subject", "day", "credits"),
            ((one.run_id, one.endpoint, one.subject, one.day, credits_text(one.cost)) for one in unsettled[:_SHOWN]),
        )
        if len(unsettled) > _SHOWN:
            console.out.print(f"and {len(unsettled) - _SHOWN:,} more; --json lists all")
    if problems:
        _problems(problems, broken)
    told = totals.credits_remaining
    said = "" if told is None else f" The provider last said that {credits_text(told)} remain."
    console.out.print(
        f"This month: {credits_text(totals.spent)} spent, {credits_text(totals.reserved)} reserved; "
        f"renewal on {totals.renewal.isoformat()}.{said}"
    )
    if totals.charged is not None and totals.known is not None:
        console.out.print(
            f"Since its first word this month the provider counted {credits_text(totals.charged)}, the ledger "
            f"{credits_text(totals.known)}{_unexplained(totals.unexplained)}."
        )


def _problems(problems: Sequence[Problem], broken: Sequence[Problem]) -> None:
    console.rows(
        "Answers with problems",
        ("answers that", "calls", "charged", "possibly charged"),
        (
            (
                BREAKAGES.get(one.name, _PROBLEMS.get(one.name, one.name)),
                one.calls,
                credits_text(one.spent),
                credits_text(one.reserved),
            )
            for one in problems
        ),
    )
    if broken:
        credits = sum(one.spent + one.reserved for one in broken)
        console.out.print(
            f"Possibly wasted: {credits_text(credits)} credits in {sum(one.calls for one in broken):,} calls whose "
            "answers did not arrive in full."
        )


def _unexplained(credits: int) -> str:
    said = "were not charged for this home's calls: another client uses the key, or the allowance was cut"
    return f": {credits_text(credits)} {said}" if credits else ""


def keys_report(keys: KeyStore, as_json: bool) -> None:
    """All keys with their plans, and their accounts' months."""
    now = utc_now()
    lines = []
    for key in keys.keys():  # noqa: SIM118 - a method of ours, not a mapping's
        month = keys.balance(key.id)
        plan = "custom" if key.custom_plan else "standard"
        spent, allowance = credits_text(month.spent), credits_text(month.allowance)
        lines.append((key.prefix, key.name, plan, _state(key, now), spent, allowance, month.renews_on.isoformat()))
    columns = ("prefix", "name", "plan", "state", "spent", "allowance", "renews on")
    if as_json:
        console.as_json([dict(zip(columns, line, strict=True)) for line in lines])
    else:
        console.rows("Keys", columns, lines)


def _state(key: Key, now: datetime) -> str:
    if key.ends_at is None:
        return "in force"
    return f"ends {key.ends_at:%Y-%m-%d %H:%M}" if key.ends_at > now else "ended"


def plan_of_key_report(key: Key, as_json: bool) -> None:
    """The plan that a key's account has."""
    plan = {
        "name": key.name,
        "plan": "custom" if key.custom_plan else "standard",
        "allowance": credits_text(key.allowance),
        "renewal day": key.renewal_day,
    }
    if as_json:
        console.as_json(plan)
    else:
        console.rows("", tuple(plan), [tuple(plan.values())])


def usage_report(charged: Sequence[Usage], by: UsageGrouping, as_json: bool) -> None:
    """Requests and credits of the service's keys by key, endpoint or day, and together."""
    requests: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    for row in charged:
        group = {"key": row.prefix, "endpoint": row.endpoint, "day": row.day.isoformat()}[by]
        requests[group] += row.requests
        spent[group] += row.credits
    names = {row.prefix: {"name": row.name} for row in charged} if by == "key" else {}
    lines = [{by: group, **names.get(group, {}), "requests": requests[group]} for group in sorted(requests)]
    if as_json:
        totals = {"requests": requests.total(), "credits_hundredths": spent.total()}
        priced = [{**line, "credits_hundredths": spent[str(line[by])]} for line in lines]
        console.as_json({"totals": totals, "by": by, "lines": priced})
        return
    columns = (by, *(("name",) if by == "key" else ()), "requests", "credits")
    console.rows(f"Usage by {by}", columns, ((*line.values(), credits_text(spent[str(line[by])])) for line in lines))
    console.out.print(f"Together: {requests.total():,} requests, {credits_text(spent.total())} credits.")


def tables_report(workspace: Workspace, as_json: bool) -> None:
    """Tables, views and macros of the warehouse."""
    found = workspace.warehouse.query(
        """
        SELECT table_name AS name, 'table' AS kind, estimated_size AS rows, comment FROM duckdb_tables()
        WHERE table_name NOT LIKE '\\_%' ESCAPE '\\' AND NOT internal
        UNION ALL
        SELECT view_name, 'view', NULL, comment FROM duckdb_views() WHERE NOT internal
        UNION ALL
        SELECT DISTINCT function_name || '(' || array_to_string(parameters, ', ') || ')', 'macro', NULL, comment
        FROM duckdb_functions() WHERE NOT internal AND function_type IN ('table_macro', 'macro')
        ORDER BY kind, name
        """
    )
    if as_json:
        console.as_json(found.to_pylist())
    else:
        lines = [list(row.values()) for row in found.to_pylist()]
        first_sentences = [[*line[:-1], (line[-1] or "").partition(". ")[0].partition("\n")[0]] for line in lines]
        console.rows("The warehouse", ("name", "kind", "rows", "what it is"), first_sentences)
        console.out.print("docs/sql.md explains each view and macro; docs/tables.md each column.")
