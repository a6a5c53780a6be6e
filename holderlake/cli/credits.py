"""Report of the credits that were spent and reserved, and of credits that were charged for unusable answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, Literal

from holderlake.core.contract.prices import credits_text
from holderlake.core.provider.errors import CAUSES
from holderlake.core.provider.ledger.entries import IMPLAUSIBLE, Problem
from holderlake.core.units import counted
from holderlake.core.workspace import Workspace
from holderlake.presentation import console

Grouping = Literal["endpoint", "day", "run", "token"]
_DESCRIPTIONS: Final = {how: description for how, (description, _) in CAUSES.items()} | {
    IMPLAUSIBLE: "named credits that cannot be true (the price table's cost is booked)"
}
_LINES_SHOWN: Final = 10
"""Maximum lines of a long list that are printed."""


def credits_report(workspace: Workspace, by: Grouping, as_json: bool) -> None:
    """Print the totals of the ledger, and one line for each value of the column ``by``."""
    totals, lines = workspace.ledger.totals(), workspace.ledger.report(by)
    problems = workspace.ledger.problems()
    broken = [problem for problem in problems if problem.name in CAUSES]
    if as_json:
        unknown = [asdict(call) for call in workspace.ledger.unsettled()]
        plain = asdict(totals) | {"unexplained": totals.unexplained}
        wasted = {name: sum(getattr(problem, name) for problem in broken) for name in ("calls", "spent", "reserved")}
        report = {
            "unit": "hundredths of a credit",
            "totals": plain,
            "unsettled": unknown,
            "by": by,
            "lines": [asdict(line) for line in lines],
        }
        console.as_json({**report, "problems": [asdict(problem) for problem in problems], "possibly_wasted": wasted})
        return
    console.rows(
        f"Credits by {by}",
        (by, "calls", "spent", "reserved"),
        ((line.name, line.calls, credits_text(line.spent), credits_text(line.reserved)) for line in lines),
    )
    ceilings = [
        (ceiling.name, credits_text(ceiling.limit), credits_text(ceiling.used), credits_text(ceiling.left or 0))
        for ceiling in totals.ceilings
        if ceiling.limit is not None
    ]
    if ceilings:
        console.rows("Ceilings", ("ceiling", "limit", "used", "left"), ceilings)
    unsettled = workspace.ledger.unsettled()
    if unsettled:
        console.rows(
            "Calls with an unknown outcome (they count as spent)",
            ("run", "endpoint", "subject", "day", "credits"),
            (
                (call.run_id, call.endpoint, call.subject, call.day, credits_text(call.cost))
                for call in unsettled[:_LINES_SHOWN]
            ),
        )
        if len(unsettled) > _LINES_SHOWN:
            console.out.print(f"and {len(unsettled) - _LINES_SHOWN:,} more; --json lists all")
    if problems:
        _problems(problems, broken)
    remaining = totals.credits_remaining
    balance = "" if remaining is None else f" The provider last reported {credits_text(remaining)} remaining."
    console.out.print(
        f"This month: {credits_text(totals.spent)} spent, {credits_text(totals.reserved)} reserved; "
        f"renewal on {totals.renewal.isoformat()}.{balance}"
    )
    if totals.charged is not None and totals.known is not None:
        console.out.print(
            f"Since its first report this month the provider counted {credits_text(totals.charged)}, the ledger "
            f"{credits_text(totals.known)}{_unexplained(totals.unexplained)}."
        )


def _problems(problems: Sequence[Problem], broken: Sequence[Problem]) -> None:
    console.rows(
        "Answers with problems",
        ("answers that", "calls", "charged", "possibly charged"),
        (
            (
                _DESCRIPTIONS.get(problem.name, problem.name),
                problem.calls,
                credits_text(problem.spent),
                credits_text(problem.reserved),
            )
            for problem in problems
        ),
    )
    if broken:
        credits = sum(problem.spent + problem.reserved for problem in broken)
        console.out.print(
            f"Possibly wasted: {credits_text(credits)} credits in "
            f"{counted(sum(problem.calls for problem in broken), 'call')} whose "
            "answers did not arrive in full or were not answers of the API."
        )


def _unexplained(credits: int) -> str:
    reason = "were not charged for this home's calls: another client uses the key, or the allowance was cut"
    return f": {credits_text(credits)} {reason}" if credits else ""
