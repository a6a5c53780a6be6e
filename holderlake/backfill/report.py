"""Print a plan of a backfill: tables, sentences and the command to run next; or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final, Literal

from holderlake import console
from holderlake.backfill.forecast import Forecast, Month
from holderlake.backfill.plan import EndpointLine, Plan, TokenLine
from holderlake.backfill.suggestions import Advice
from holderlake.contract.prices import credits_text
from holderlake.units import counted

Grouping = Literal["endpoint", "token"]

_MONTHS_SHOWN: Final = 12
_TOKENS_SHOWN: Final = 20


def plan_report(plan: Plan, as_json: bool, next_step: str | None = None, by: Grouping = "endpoint") -> None:
    """Print a plan, with its calls by endpoint or by token. ``next_step`` is the command that executes it."""
    if as_json:
        tokens = {"tokens": [asdict(line) for line in plan.tokens]} if by == "token" else {}
        console.as_json({**plan.as_json(), **tokens, "next": None if plan.is_finished else next_step})
        return
    _families(plan)
    if by == "token":
        _tokens(plan.tokens)
    elif plan.endpoints:
        _endpoints(plan)
    if plan.coming is not None and plan.coming.months and plan.calls:
        _months(plan.coming.months)
    if plan.advice:
        _advice(plan.advice)
    for sentence in sentences(plan, next_step):
        console.out.print(sentence, soft_wrap=True)


def plan_markdown(plan: Plan) -> str:
    """Return a plan as Markdown for Dagster's UI: a table with a line for each stream, then ``sentences``."""
    lines = [
        "| family | partitions | complete | in the archive | from the engine | calls | credits |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {line.family} | {line.partitions:,} | {line.whole:,} | {line.archived:,} | {line.computed:,} "
        f"| {line.calls:,} | {credits_text(line.credits)} |"
        for line in plan.lines
    ]
    return "\n".join([*lines, "", *sentences(plan)])


def sentences(plan: Plan, next_step: str | None = None) -> list[str]:
    """Return the summary of a plan as sentences. With ``next_step`` the last one names the command to run next."""
    left_out = list(map(str, plan.left_out))
    if not plan.lines:
        return [*left_out, "Nothing is left to fetch."]
    if plan.is_finished:
        lines = [*left_out, *_other_options(plan), "All of it is in the lake already: no call, no credits."]
        return lines if next_step is None else [*lines, "Next: holderlake tables"]
    lines = left_out + _other_options(plan)
    if plan.stale:
        lines.append(
            f"{counted(plan.stale, 'partition', 'was')} computed before your store changed; a backfill computes them "
            "again, free."
        )
    if plan.computed:
        answers = "One answer comes" if plan.computed == 1 else f"{plan.computed:,} answers come"
        lines.append(f"{answers} from the local engine: no calls, no credits.")
    if plan.calls and plan.is_free:
        lines.append(f"{counted(plan.calls, 'call')} to the service over your store: no credits.")
    elif plan.calls:
        least = "less than a minute" if plan.minutes < 1 else f"at least {plan.minutes:,.1f} minutes"
        lines += [
            f"It costs at most {credits_text(plan.credits)} credits and takes {least} at the rate limit; the answers "
            f"have about {_bytes(plan.bytes)}.",
            _payment(plan),
        ]
        if plan.refused:
            lines.append(
                f"Of the calls, {plan.refused:,} cost nothing, because the provider will refuse them: "
                "they ask for a time before the token's first transfer, or for a token that it has never supported."
            )
        if plan.runs is not None and plan.runs > 1:
            lines.append(f"budget.per_run ends a run early, so it takes {plan.runs:,} runs or more.")
        if plan.cheapest is not None:
            cost = credits_text(plan.credits - plan.cheapest.saves)
            lines.append(
                f"The cheapest settings that still fill these tables cost {cost} credits, "
                f"{credits_text(plan.cheapest.saves)} less: {plan.cheapest.text.removeprefix('set ')}."
            )
    elif not plan.computed or any(line.archived for line in plan.lines):
        quantifier = "All other" if plan.computed else "All"
        lines.append(f"{quantifier} answers are in the archive already: they cost nothing.")
    return lines if next_step is None else [*lines, f"Next: {next_step}"]


def _other_options(plan: Plan) -> list[str]:
    """Return a sentence for each stream of ``plan.other_options``; none for a plan with ``refresh``."""
    return [
        f"Of {line.family} ({line.first} to {line.last}), {counted(line.partitions, 'partition', 'was')} requested "
        f"with other options ({'; or '.join(line.options)}) and kept; --refresh would replace it for "
        f"{credits_text(line.refresh_credits)} credits."
        for line in plan.other_options
        if not plan.refresh
    ]


def _payment(plan: Plan) -> str:
    if plan.month_left is None and plan.coming is None:
        return "No monthly ceiling is set, so only the rate limit matters."
    credits_left = "" if plan.month_left is None else f"{credits_text(plan.month_left)} credits are left this month. "
    return credits_left + ("" if plan.coming is None else _end(plan.coming))


def _end(coming: Forecast) -> str:
    if coming.finished is None:
        return f"It would not finish: {coming.never}."
    if len(coming.months) == 1:
        return f"This month covers it; it would finish on {coming.finished}."
    return f"It takes {len(coming.months)} months, from renewal to renewal; it would finish on {coming.finished}."


def _families(plan: Plan) -> None:
    lines: list[tuple[Any, ...]] = [
        (
            line.family,
            line.partitions,
            line.whole,
            line.calls,
            line.archived,
            line.shared,
            *([line.computed] if plan.computed else []),
            credits_text(line.credits),
        )
        for line in plan.lines
    ]
    sums = [sum(line.archived for line in plan.lines), sum(line.shared for line in plan.lines)]
    engine = ["from the engine"] if plan.computed else []
    sums += [plan.computed] if plan.computed else []
    lines.append(("total", None, None, plan.calls, *sums, credits_text(plan.credits)))
    console.rows(
        f"Plan: {counted(len(plan.chains), 'chain')}, {counted(len(plan.instants), 'instant')}",
        ("family", "partitions", "complete", "calls", "answers archived", "answers shared", *engine, "credits"),
        lines,
    )


def _endpoints(plan: Plan) -> None:
    console.rows(
        "By endpoint",
        ("endpoint", "calls", "credits", "bytes", "estimated from"),
        (
            (line.endpoint, line.calls, credits_text(line.credits), _bytes(line.bytes), _estimated_from(line))
            for line in plan.endpoints
        ),
    )


def _tokens(lines: Sequence[TokenLine]) -> None:
    shown_lines = lines if len(lines) <= _TOKENS_SHOWN + 1 else lines[:_TOKENS_SHOWN]
    console.rows(
        "By token",
        ("chain", "token", "calls", "credits"),
        (
            (line.chain, line.token_address or "not about one token", line.calls, credits_text(line.credits))
            for line in shown_lines
        ),
    )
    if len(shown_lines) < len(lines):
        console.out.print(f"and {len(lines) - len(shown_lines):,} more; --json lists all")


def _estimated_from(line: EndpointLine) -> str:
    if line.learnt_from:
        answers = "one archived answer" if line.learnt_from == 1 else f"{line.learnt_from:,} archived answers"
        return f"{answers}: {line.bytes_by_unit:,.0f} for {line.unit}"
    return f"assumed: {line.bytes_by_unit:,.0f} for {line.unit}"


def _months(months: list[Month]) -> None:
    shown_months = months if len(months) <= _MONTHS_SHOWN else [*months[: _MONTHS_SHOWN - 1], months[-1]]
    left_out = len(months) - len(shown_months)
    omission = f" ({counted(left_out, 'month')} before the last left out)" if left_out else ""
    console.rows(
        f"By month, as the ceilings allow{omission}",
        ("from", "renewal", "allowance", "calls", "credits"),
        (
            (
                str(month.start),
                str(month.renewal),
                "none set" if month.allowance is None else credits_text(month.allowance),
                month.calls,
                credits_text(month.credits),
            )
            for month in shown_months
        ),
    )


def _advice(advice: list[Advice]) -> None:
    console.out.print("Cheaper, with less data", style="bold")
    for suggestion in advice:
        settings = ", ".join(f"{name} = {str(value).lower()}" for name, value in suggestion.settings.items())
        with_tables = (
            f" (Plan it with {' '.join(f'--table {table}' for table in suggestion.tables)}.)"
            if suggestion.tables
            else ""
        )
        also = f", with {settings}" if suggestion.tables and settings else ""
        console.out.print(
            f"- {suggestion.text}{also}: saves {credits_text(suggestion.saves)}. Lost: {suggestion.loses}."
            f"{with_tables}",
            soft_wrap=True,
        )


def _bytes(count: int) -> str:
    size, units = float(count), ["bytes", "kB", "MB", "GB"]
    while size >= 1_000 and len(units) > 1:
        size, units = size / 1_000, units[1:]
    return f"{size:,.0f} {units[0]}" if units[0] == "bytes" or size >= 10 else f"{size:.1f} {units[0]}"
