"""Evaluation of alert rules over the warehouse.

Each kind of rule is a query in ``sql/`` over the warehouse's tables and ``watched``, a table of the tokens to examine.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any, Final

import duckdb
import pyarrow as pa

from holderlake.core.units import percentage
from holderlake.core.warehouse.connections import explained
from holderlake.core.warehouse.warehouse import WarehouseError
from holderlake.operations.alerts.settings import ALERT_KINDS, AlertRule

Tokens = Mapping[str, Sequence[str]]
"""Token addresses by chain."""

HEAD: Final = "head "
"""Beginning of the occasion of an alert that was found at the head of a chain."""
BLOCK: Final = "block"
"""Key of the evidence of such an alert: the number of the newest block."""
_PARAMETER: Final = re.compile(r"\$(\w+)")


@dataclass(frozen=True)
class Alert:
    """An event that the rule ``name`` (of the kind ``rule``) found about a token as of ``timestamp`` (UTC).

    ``measured`` is the figure of ``subject``, for example of an address, that the rule compared with ``threshold``.
    ``occasion`` distinguishes events about the same subject. ``evidence`` is plain JSON; only ``evidence`` may have
    texts of the provider, such as labels.
    """

    name: str
    rule: str
    chain: str
    token_address: str
    timestamp: datetime
    subject: str
    occasion: str
    measured: float
    threshold: float
    evidence: Mapping[str, Any]

    @property
    def fingerprint(self) -> str:
        """Identifier of the event (32 hexadecimal digits): the same each time that the event is found."""
        parts = (self.name, self.rule, self.chain, self.token_address, self.subject, self.occasion)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    @property
    def since(self) -> datetime | None:
        """The earlier instant that the rule compared with (naive UTC); None if there was none."""
        earlier = self.evidence.get("previous_timestamp") or self.evidence.get("highest_timestamp")
        return None if earlier is None else datetime.fromisoformat(earlier)

    @property
    def sentence(self) -> str:
        """Description of the alert in one sentence of numbers and addresses, without texts of providers."""
        event = ALERT_KINDS[self.rule].sentence.format(
            subject=self.subject,
            measured=self.measured,
            threshold=self.threshold,
            share=percentage(self.measured, 2),
            limit=percentage(self.threshold, 2),
        )
        return f"{self.name}: {self.token_address} on {self.chain} at {self.timestamp:%Y-%m-%d %H:%M} UTC: {event}"


@dataclass(frozen=True)
class Span:
    """The period that a rule examines, from ``since`` to ``until`` (naive UTC, both included).

    ``interval`` is the time between two instants of the schedule. ``began`` is the time of the rule's first evaluation.
    A token without any data counts as late since then.
    """

    since: datetime
    until: datetime
    interval: timedelta
    began: datetime | None = None


def tokens_of(rule: AlertRule, watched: Tokens, chains: Collection[str] | None = None) -> dict[str, Sequence[str]]:
    """Return the token addresses that a rule examines, by chain: those of its setting, or else all watched tokens.

    With ``chains``, only tokens on these chains.
    """
    return {chain: tokens for chain, tokens in (rule.tokens or watched).items() if chains is None or chain in chains}


def evaluate(
    warehouse: duckdb.DuckDBPyConnection, name: str, rule: AlertRule, tokens: Tokens, span: Span
) -> list[Alert]:
    """Return the alerts of the rule ``name`` about the given tokens. Raises ``WarehouseError`` if its query fails.

    ``warehouse`` is a connection to the warehouse. ``tokens`` replaces its temporary view ``watched``.
    """
    warehouse.register("watched", _table_of(tokens))
    return list(_alerts(warehouse, name, rule, span))


def _alerts(warehouse: duckdb.DuckDBPyConnection, name: str, rule: AlertRule, span: Span) -> Iterator[Alert]:
    sql = rule_sql(rule.rule)
    parameters = {
        "since": span.since,
        "until": span.until,
        "began": span.began or span.until,
        "interval_seconds": span.interval.total_seconds(),
        **rule.parameters,
    }
    try:
        rows = warehouse.execute(sql, {key: parameters[key] for key in set(_PARAMETER.findall(sql))}).fetchall()
    except duckdb.Error as error:
        raise WarehouseError(
            f"the alert rule {name} cannot be evaluated, because its query failed ({explained(error)}); "
            "run 'holderlake doctor'"
        ) from error
    for chain, token, timestamp, subject, occasion, measured, evidence in rows:
        details = json.loads(evidence)
        yield Alert(name, rule.rule, chain, token, timestamp, subject, occasion, measured, rule.limit, details)


@cache
def rule_sql(kind: str) -> str:
    """Return the SQL query of a kind of rule, for example ``score_fall``."""
    return files("holderlake.operations.alerts").joinpath("sql", f"{kind}.sql").read_text("utf-8")


def _table_of(tokens: Tokens) -> pa.Table:
    pairs = [(chain, token) for chain, listed in tokens.items() for token in listed]
    return pa.table(
        {
            "chain": pa.array([chain for chain, _ in pairs], pa.string()),
            "token_address": pa.array([token for _, token in pairs], pa.string()),
        }
    )
