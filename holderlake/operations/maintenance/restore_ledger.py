"""Add calls to a credit ledger that was emptied, lost or replaced by an older copy, or that is new.

Each archived answer was paid, and its cost follows from its request, which is made again from its method, path, query
and body. Calls that were charged without an answer are not in the archive. Their sum follows from the provider's
balance and the monthly ceiling, as soon as a balance is known. A shared ledger in PostgreSQL gets the calls of a home's
SQLite ledger when ``state.url`` was set.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from pydantic import ValidationError
from sqlalchemy import Column, MetaData, Text, delete, func, insert, select

from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.contract.prices import credits_text
from holderlake.core.contract.requests import ENDPOINTS, Request
from holderlake.core.provider.ledger.ledger import CreditLedger
from holderlake.core.provider.ledger.statements import (
    BALANCE_ORDER,
    ENTRIES,
    FIRST_BALANCES,
    FORMAT,
    HOMES,
    RUNS,
    TABLES,
)
from holderlake.core.settings import Settings
from holderlake.core.storage.atomic_files import is_full
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.core.storage.state import Row, State, StateConnection, inserted, put, single
from holderlake.core.units import counted

_log = logging.getLogger(__name__)
RESTORED_RUN: Final = "restored from the archive"
BALANCE_RUN: Final = "restored from the provider's balance of"
"""Name of the run that has the charges without an archived answer; the first day of the month follows."""
NOT_ARCHIVED: Final = "not archived"
"""Name in place of the endpoint of these charges."""
_BODY_FIELDS: Final = {"tokens_metadata": "tokens"}
"""The field that is the complete body of a request, by endpoint; other bodies are objects of fields."""
_HOME: Final = single("home", MetaData(), Column("name", Text, nullable=False))
_COPIED: Final = ("run_id", "endpoint", "subject", "day", "state", "cost", "problem", "expected")


@dataclass(frozen=True)
class LostCall:
    """A call that the ledger lost, with its cost in hundredths of a credit."""

    endpoint: str
    subject: str | None
    day: date
    cost: int


def restore(ledger: CreditLedger, archive: AnswerArchive, settings: Settings) -> None:
    """Add what an opened ledger lacks: the calls of the home's own file, if its state moved to PostgreSQL, and those of
    answers in the archive that are newer than its last call, as after a restored backup."""
    if settings.state.url is not None:
        copy_home(ledger, settings.ledger)
    try:
        restore_if_older(ledger, archive)
    except DatabaseError:
        if not is_full(settings.home):  # there the ledger can be read, and each write is refused
            raise


def restore_if_older(ledger: CreditLedger, archive: AnswerArchive) -> None:
    """Add archived calls to the ledger if the archive's newest answer is of a later day than the ledger's newest call.

    Then add the charges without an archived answer: see ``add_unknown_charges``.
    """
    newest_call_day = ledger.change(_newest_day)
    if archive.root.exists() or (newest_call_day is None and not archive.is_local):
        _restore_answers(ledger, archive, newest_call_day)
        add_unknown_charges(ledger)


def _restore_answers(ledger: CreditLedger, archive: AnswerArchive, newest_call_day: str | None) -> None:
    newest = archive.newest_day()
    if newest is None or (newest_call_day is not None and newest_call_day >= newest):
        return
    archived_answers = [
        answer
        for answer in archive.stored()
        if newest_call_day is None or f"{answer.fetched_at:%Y-%m-%d}" > newest_call_day
    ]
    answer_requests = [
        (answer, request) for answer in archived_answers if (request := request_of(answer.request)) is not None
    ]
    calls = [
        LostCall(request.endpoint, request.subject, answer.fetched_at.date(), request.cost)
        for answer, request in answer_requests
    ]
    if add_lost(ledger, RESTORED_RUN, calls, newest_call_day):
        _log.warning(
            "%s lacked calls whose answers are archived: their list prices were restored (%s)%s. If "
            "budget.per_month is your allowance, the provider's next balance shows what failed calls cost",
            ledger,
            counted(len(calls), "call"),
            f", {len(archived_answers) - len(answer_requests)} calls were not, because this version "
            "does not know their requests"
            if len(answer_requests) < len(archived_answers)
            else "",
        )


def add_unknown_charges(ledger: CreditLedger) -> None:
    """Add this month's charges without an archived answer to a restored ledger, once a month, as one entry.

    Its cost is the monthly ceiling less the provider's balance and the calls of the ledger. If the ceiling is higher
    than the allowance, the cost is too high by the difference; the balance can still be spent.
    """
    totals = ledger.totals(RESTORED_RUN)
    ceilings = {ceiling.name: ceiling for ceiling in totals.ceilings}
    month, balance = ceilings["per_month"], totals.credits_remaining
    if not ceilings["per_run"].used or month.limit is None or balance is None or totals.charged is None:
        return  # not restored, or no balance of this month is known
    if not any(row.name == RESTORED_RUN for row in ledger.report("run", totals.start)):
        return
    unknown = month.limit - balance - totals.spent - totals.reserved - totals.uncharged
    call = LostCall(NOT_ARCHIVED, None, totals.start, unknown)
    newest_call_day = ledger.change(_newest_day)
    if unknown > 0 and add_lost(ledger, f"{BALANCE_RUN} {totals.start}", [call], newest_call_day, once=True):
        _log.warning(
            "%s: by the provider's balance, %s of %s credits are left; it charged %s credits more than the ledger had: "
            "they were added as one call",
            ledger,
            credits_text(balance),
            credits_text(month.limit),
            credits_text(unknown),
        )


def add_lost(
    ledger: CreditLedger, run_id: str, calls: Sequence[LostCall], newest_day: str | None, *, once: bool = False
) -> bool:
    """Add lost calls as settled entries of the run ``run_id``. Return False if another process has added calls.

    ``newest_day`` is the day of the newest entry when the caller last read it. Nothing is added if that day has
    changed since, or, with ``once``, if the run has calls already.
    """

    def add(db: StateConnection) -> bool:
        is_old = once and db.scalar(select(RUNS.c.name).where(RUNS.c.name == run_id))
        if not calls or is_old or _newest_day(db) != newest_day:
            return False
        common = {"run_id": run_id, "state": "settled"}
        lost = [asdict(call) | {"day": call.day.isoformat(), "expected": call.cost} for call in calls]
        inserted(db, ENTRIES, [common | call for call in lost])
        return True

    return ledger.change(add)


def _newest_day(db: StateConnection) -> str | None:
    """Return the day (YYYY-MM-DD) of the ledger's newest entry; None in an empty ledger."""
    day: str | None = db.scalar(select(func.max(ENTRIES.c.day)))
    return day


def request_of(about: Mapping[str, Any]) -> Request | None:
    """Return the request of an archived answer; None if this version does not know its endpoint or its fields.

    ``about`` has ``method``, ``path``, ``query`` and ``body``, as the archive stores them.
    """
    for kind in ENDPOINTS:
        if kind.method == about["method"] and (fields := _path_fields(kind, str(about["path"]))) is not None:
            try:
                return kind.model_validate(fields | _other_fields(kind, about["query"], about["body"]))
            except ValidationError:
                return None
    return None


def _path_fields(kind: type[Request], path: str) -> dict[str, str] | None:
    """Return the request's fields that ``path`` contains; None if ``path`` is of another endpoint than ``kind``."""
    names, parts = kind.route.split("/"), [unquote(part) for part in path.split("/")]
    fields = {name[1:-1]: part for name, part in zip(names, parts, strict=False) if name.startswith("{")}
    return fields if [fields.get(name[1:-1], name) for name in names] == parts else None


def _other_fields(kind: type[Request], query: Mapping[str, str], body: Any) -> dict[str, Any]:
    if "options" in kind.model_fields:
        return {"options": dict(query)}
    if kind.endpoint == "search":
        return {"text": query["query"]}
    if kind.endpoint in _BODY_FIELDS:
        return {_BODY_FIELDS[kind.endpoint]: body, **query}
    return {**query, **(body or {})}


def copy_home(ledger: CreditLedger, path: Path) -> None:
    """Add the calls of the SQLite ledger at ``path`` to the shared ledger, once. The file keeps them."""
    if not path.exists():
        return
    with closing(State(path, TABLES, "FULL", version=FORMAT)) as home:
        name = home.run(_name)
        if not ledger.change(lambda db: _is_copied(db, name)):
            calls = home.rows(select(*(ENTRIES.c[column] for column in _COPIED)).order_by(ENTRIES.c.id))
            if ledger.change(lambda db: _add_home(db, name, [dict(zip(_COPIED, call, strict=True)) for call in calls])):
                _log.warning("the calls in %s were copied to %s, which now counts all calls of this home", path, ledger)


def _is_copied(db: StateConnection, name: str) -> bool:
    return db.scalar(select(HOMES).where(HOMES.c.name == name)) is not None


def _add_home(db: StateConnection, name: str, calls: Sequence[Row]) -> bool:
    """Add all calls of a home, rows of ``ENTRIES`` without ids and claims, unless another process has added them.

    The comparison of the ledger's charges with the decrease of the provider's balance starts again.
    """
    if _is_copied(db, name):
        return False
    db.execute(insert(HOMES), {"name": name})
    inserted(db, ENTRIES, calls)
    db.execute(delete(FIRST_BALANCES))
    db.execute(delete(BALANCE_ORDER))
    return True


def _name(db: StateConnection) -> str:
    """Return the random name of the home, by which the shared ledger knows that it was copied."""
    _HOME.create(db, checkfirst=True)
    name = db.scalar(select(_HOME.c.name))
    if name is None:
        name = secrets.token_hex(16)
        put(db, _HOME, {"name": name})
    return str(name)
