"""A plan of a backfill as text: sentences and the command to run next; Markdown for Dagster's page."""

from __future__ import annotations

from holderlake.core.contract.prices import credits_text
from holderlake.core.units import counted
from holderlake.operations.backfill.forecast import Forecast
from holderlake.operations.backfill.plan import Plan


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
            f"have about {bytes_text(plan.bytes)}.",
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


def bytes_text(count: int) -> str:
    """Return a number of bytes as text, with the largest unit below 1,000."""
    size, units = float(count), ["bytes", "kB", "MB", "GB"]
    while size >= 1_000 and len(units) > 1:
        size, units = size / 1_000, units[1:]
    return f"{size:,.0f} {units[0]}" if units[0] == "bytes" or size >= 10 else f"{size:.1f} {units[0]}"
