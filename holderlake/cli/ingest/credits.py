"""Report of the credits that were spent and reserved, and of credits that were charged for unusable answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, Literal

from holderlake import console
from holderlake.contract.prices import credits_text
from holderlake.provider.broken_answers import BREAKAGES
from holderlake.provider.ledger.entries import IMPLAUSIBLE
from holderlake.provider.ledger.reports import Problem
from holderlake.units import counted
from holderlake.workspace import Workspace

Grouping = Literal["endpoint", "day", "run", "token"]


_PROBLEMS: Final = {IMPLAUSIBLE: "named credits that cannot be true (the price table's cost is booked)"}
_SHOWN: Final = 10
"""Most lines of a long list that are printed."""


def credits_report(workspace: Workspace, by: Grouping, as_json: bool) -> None:
    """Print the totals of the ledger, and one line for each value of the column ``by``."""
    totals, lines = workspace.ledger.totals(), workspace.ledger.report(by)
    problems = workspace.ledger.problems()
    broken = [one for one in problems if one.name in BREAKAGES]
    if as_json:
        unknown = [asdict(one) for one in workspace.ledger.unsettled()]
        plain = asdict(totals) | {"unexplained": totals.unexplained}
        wasted = {name: sum(getattr(one, name) for one in broken) for name in ("calls", "spent", "reserved")}
        report = {
            "unit": "hundredths of a credit",
            "totals": plain,
            "unsettled": unknown,
            "by": by,
            "lines": [asdict(line) for line in lines],
        }
        console.as_json({**report, "problems": [asdict(one) for one in problems], "possibly_wasted": wasted})
        return
    console.rows(
        f"Credits by {by}",
        (by, "calls", "spent", "reserved"),
        ((line.name, line.calls, credits_text(line.spent), credits_text(line.reserved)) for line in lines),
    )
    ceilings = [
        (one.name, credits_text(one.limit), credits_text(one.used), credits_text(one.left or 0))
        for one in totals.ceilings
        if one.limit is not None
    ]
    if ceilings:
        console.rows("Ceilings", ("ceiling", "limit", "used", "left"), ceilings)
    unsettled = workspace.ledger.unsettled()
    if unsettled:
        console.rows(
            "Calls with an unknown outcome (they count as spent)",
            ("run", "endpoint", "subject", "day", "credits"),
            ((one.run_id, one.endpoint, one.subject, one.day, credits_text(one.cost)) for one in unsettled[:_SHOWN]),
        )
        if len(unsettled) > _SHOWN:
            console.out.print(f"and {len(unsettled) - _SHOWN:,} more; --json lists all")
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
            f"Possibly wasted: {credits_text(credits)} credits in "
            f"{counted(sum(one.calls for one in broken), 'call')} whose "
            "answers did not arrive in full or were not answers of the API."
        )


def _unexplained(credits: int) -> str:
    reason = "were not charged for this home's calls: another client uses the key, or the allowance was cut"
    return f": {credits_text(credits)} {reason}" if credits else ""
