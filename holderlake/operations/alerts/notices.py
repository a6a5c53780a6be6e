"""Notices about the pipeline itself: a run or requests failed, a partition was given up, credits are used up, a key
was refused, a reorganisation undid an alert.

A notice is an alert without a rule of the settings. It goes through the same outbox to the same destinations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

from holderlake.operations.alerts.rules import Alert

RUN_FAILED: Final = "run_failed"
REQUESTS_FAILED: Final = "requests_failed"
PARTITION_GIVEN_UP: Final = "partition_given_up"
CREDITS_USED_UP: Final = "credits_used_up"
KEY_REFUSED: Final = "key_refused"
ENDPOINT_REFUSED: Final = "endpoint_refused"
ALERT_UNDONE: Final = "alert_undone"
NOTICES: Final = (
    *(RUN_FAILED, REQUESTS_FAILED, PARTITION_GIVEN_UP, CREDITS_USED_UP, KEY_REFUSED, ENDPOINT_REFUSED),
    ALERT_UNDONE,
)
"""The kinds of notices."""


class Notice(Alert):
    """A notice of one of the kinds ``NOTICES``: ``name`` and ``rule`` are its kind, ``subject`` is its sentence.

    ``chain`` is empty if the notice is not about a chain. ``occasion`` identifies the event.
    """

    @property
    def sentence(self) -> str:
        """The notice in one sentence, without texts of providers."""
        return f"{self.name}: {self.subject}"


def run_failed(run_id: str, job: str, partition: str | None, error: str | None, at: datetime) -> Notice:
    """Return the notice about a failed run. ``partition`` is its key (``CHAIN|DAY``), ``error`` its error code."""
    place = f" for {partition.replace('|', ' ')}" if partition else ""
    reason = f" ({error})" if error else ""
    evidence = {"run_id": run_id, "job": job, "partition": partition, "error": error}
    return _notice(RUN_FAILED, f"the run {run_id} of {job}{place} failed{reason}", run_id, at, evidence)


def requests_failed(run_id: str, job: str, partition: str | None, failed: Mapping[str, int], at: datetime) -> Notice:
    """Return the notice about a run that succeeded with failed requests: their number by stream, in ``failed``."""
    place = f" for {partition.replace('|', ' ')}" if partition else ""
    counts = ", ".join(f"{count:,} of {name}" for name, count in sorted(failed.items()))
    evidence = {"run_id": run_id, "job": job, "partition": partition, "failed": dict(failed)}
    text = f"requests of the run {run_id} of {job}{place} failed: {counts}; the other rows are in the lake"
    return _notice(REQUESTS_FAILED, text, run_id, at, evidence)


def partition_given_up(
    chain: str, day: date, instants: Sequence[datetime], families: Sequence[str], reason: str, at: datetime
) -> Notice:
    """Return the notice that the missing data of a chain and day are not fetched again.

    ``instants`` are the scheduled instants of the day, ``families`` the streams with missing data.
    """
    text = f"{chain} {day} lacks {', '.join(families)} and is not fetched again: {reason}"
    times = [f"{when.isoformat()}Z" for when in instants]
    evidence = {"day": day.isoformat(), "instants": times, "families": list(families), "reason": reason}
    return _notice(PARTITION_GIVEN_UP, text, f"{day} {reason}", at, evidence, chain)


def credits_used_up(code: str, run_id: str, at: datetime) -> Notice:
    """Return the notice that a run ended for lack of credits, at most one a day. ``code`` is the error's code."""
    text = f"no credits are left ({code}); what runs could not fetch is requested again when there are credits"
    return _notice(CREDITS_USED_UP, text, f"{at.date()} {code}", at, {"code": code, "run_id": run_id})


def key_refused(code: str, run_id: str, at: datetime) -> Notice:
    """Return the notice that the provider refuses the API key. ``code`` is the error's code.

    A code gives one notice a day: later ones of the same UTC day have the same fingerprint.
    """
    text = f"the provider refuses the API key ({code}); no scheduled run can fetch data"
    return _notice(KEY_REFUSED, text, f"{at.date()} {code}", at, {"code": code, "run_id": run_id})


def endpoint_refused(endpoint: str, code: str, run_id: str, at: datetime) -> Notice:
    """Return the notice that the provider refuses the requests to one endpoint. ``code`` is the error's code.

    An endpoint gives one notice a day.
    """
    text = (
        f"the provider refuses requests to the endpoint {endpoint} ({code}); runs fetch the tables of the others only"
    )
    evidence = {"endpoint": endpoint, "code": code, "run_id": run_id}
    return _notice(ENDPOINT_REFUSED, text, f"{at.date()} {endpoint}", at, evidence)


def alert_undone(alert: Alert, at: datetime) -> Notice:
    """Return the notice that an alert of the head no longer holds at ``at``, because its chain was reorganised."""
    text = f"the chain was reorganised, and this alert no longer holds: {alert.sentence}"
    evidence = {
        "fingerprint": alert.fingerprint,
        "token_address": alert.token_address,
        "timestamp": f"{alert.timestamp.isoformat()}Z",
    }
    return _notice(ALERT_UNDONE, text, alert.fingerprint, at, evidence, alert.chain)


def test_notice(at: datetime) -> Notice:
    """Return a notice that tests a destination."""
    return _notice("test", "this is a test", at.isoformat(), at, {})


def _notice(kind: str, text: str, occasion: str, at: datetime, evidence: dict[str, Any], chain: str = "") -> Notice:
    return Notice(kind, kind, chain, "", at, text, occasion, 0.0, 0.0, evidence)
