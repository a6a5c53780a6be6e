"""Print a plan of a backfill: tables, sentences and the command to run next; or JSON."""

from __future__ import annotations

from typing import Any, Final

from holderlake.core.contract.prices import credits_text
from holderlake.core.units import counted
from holderlake.operations.backfill.forecast import Month
from holderlake.operations.backfill.plan import EndpointLine, Plan
from holderlake.operations.backfill.report import bytes_text, sentences
from holderlake.operations.backfill.suggestions import Advice
from holderlake.presentation import console

_MONTHS_SHOWN: Final = 12


def plan_report(plan: Plan, as_json: bool, next_step: str | None = None) -> None:
    """Print a plan. ``next_step`` is the command that executes it."""
    if as_json:
        console.as_json({**plan.as_json(), "next": None if plan.is_finished else next_step})
        return
    _families(plan)
    if plan.endpoints:
        _endpoints(plan)
    if plan.coming is not None and plan.coming.months and plan.calls:
        _months(plan.coming.months)
    if plan.advice:
        _advice(plan.advice)
    for sentence in sentences(plan, next_step):
        console.out.print(sentence, soft_wrap=True)


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
            (line.endpoint, line.calls, credits_text(line.credits), bytes_text(line.bytes), _estimated_from(line))
            for line in plan.endpoints
        ),
    )


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
