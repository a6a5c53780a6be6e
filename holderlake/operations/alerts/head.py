"""Evaluation of alert rules at the head of a chain, over maps and holders that the local engine computes.

The rules' SQL runs on a small warehouse in memory. It has answers about the tokens that changed, as of the newest block
and as of the last block before it that was evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import duckdb

from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.core.contract.requests import HoldersOptions, MapOptions
from holderlake.core.contract.tables import TABLES, with_fetched_at
from holderlake.core.contract.times import from_unix
from holderlake.core.ingest.partition import with_option_columns
from holderlake.core.provider.errors import NoHolders
from holderlake.core.settings.cron import interval_of
from holderlake.core.warehouse import schema
from holderlake.core.warehouse.connections import prepared
from holderlake.core.workspace import Workspace
from holderlake.engine.direct import StoreEngine
from holderlake.operations.alerts.delivery import notify
from holderlake.operations.alerts.notices import Notice, alert_undone
from holderlake.operations.alerts.outbox import Outbox
from holderlake.operations.alerts.rules import BLOCK, HEAD, Alert, Span, Tokens, evaluate, tokens_of
from holderlake.operations.alerts.settings import AlertSettings, alerts_database

_INSERT: Final = "INSERT INTO {table} BY NAME SELECT * RENAME (as_of AS timestamp) FROM rows"


class HeadAlerts:
    """The rules of a workspace at the head of ``chain``. ``engine`` computes answers from the user's own store.

    ``version`` returns a value that changes when transfers of the token with a given address are added or removed.
    """

    def __init__(self, workspace: Workspace, engine: StoreEngine, chain: str, version: Callable[[str], object]) -> None:
        settings = workspace.settings
        self._workspace, self._engine, self._chain, self._version = workspace, engine, chain, version
        self._rules = {
            name: rule for name, rule in settings.section(AlertSettings).in_force.items() if rule.kind.is_of_head
        }
        of_rules = (tokens_of(rule, settings.watchlist, {chain}) for rule in self._rules.values())
        self._tokens = sorted({token for tokens in of_rules for token in tokens.get(chain, ())})
        self._versions: dict[str, object] = {token: version(token) for token in self._tokens}
        values = (value for rule in self._rules.values() for value in rule.options.values())
        self._periods = {value for value in values if isinstance(value, timedelta)}
        self._database = prepared(duckdb.connect())
        schema.install(self._database)

    def forget(self) -> None:
        """Treat all tokens as changed at the next evaluation. Call it if the store may have changed without one."""
        self._versions = {}

    def evaluate(self, since: int, at: int, block: int, undone_after: int | None) -> int:
        """Evaluate the rules as of ``block``, about what changed after ``since``, and send new alerts.

        ``at`` is the time of the block; times are unix seconds. Changes older than the setting ``alerts.max_age`` do
        not count. Return the number of new alerts. If a reorganisation undid the blocks after ``undone_after``, a
        notice follows for each of their alerts that no longer holds. Raises ``EngineError``, ``WarehouseError`` and
        ``SettingsError``.
        """
        since = max(since, at - int(self._workspace.settings.section(AlertSettings).max_age.total_seconds()))
        versions = {token: self._version(token) for token in self._tokens}
        changed = [token for token in self._tokens if versions[token] != self._versions.get(token)]
        alerts: list[Alert] = []
        if changed:
            self._fill(changed, from_unix(since), from_unix(at))
            alerts = self._alerts(changed, from_unix(at), block)
        undone: list[Notice] = []
        if undone_after is not None:
            outbox = Outbox(self._workspace.state(alerts_database(self._workspace.settings)))
            earlier = outbox.of_head(self._chain, from_unix(since), undone_after)
            undone = _undone(earlier, alerts, changed, from_unix(at))
        report = notify(self._workspace, [*alerts, *undone])  # it also sends what is still to be sent
        self._versions = versions
        return len(report.new_alerts)

    def _alerts(self, tokens: Sequence[str], at: datetime, block: int) -> list[Alert]:
        span = Span(at, at, interval_of(self._workspace.settings.schedule.cron))
        watched = {self._chain: tokens}
        found_alerts = (
            alert
            for name, rule in self._rules.items()
            for alert in evaluate(self._database, name, rule, _common(tokens_of(rule, watched), watched), span)
        )
        return [
            replace(alert, occasion=f"{HEAD}{alert.occasion}", evidence={**alert.evidence, BLOCK: block})
            for alert in found_alerts
        ]

    def _fill(self, tokens: Sequence[str], since: datetime, at: datetime) -> None:
        """Replace all rows by the answers about ``tokens`` as of ``since``, ``at``, and where falls of scores begin."""
        settings, database = self._workspace.settings, self._database
        maps, holders = settings.maps, settings.holders
        options = MapOptions(limit=maps.limit, use_magic_nodes=maps.use_magic_nodes, use_time_nodes=maps.use_time_nodes)
        of_holders = HoldersOptions(limit=holders.limit, return_metadata=holders.with_metadata)
        instants = sorted({since, at, *(at - period for period in self._periods)})
        database.execute("DELETE FROM coverage")
        for stream, result in (
            (MAPS, self._engine.maps(self._chain, tokens, instants, options)),
            (HOLDERS, self._engine.holders(self._chain, tokens, [since, at], of_holders)),
        ):
            rows = {name: with_fetched_at(TABLES[name], table, at) for name, table in result.tables.items()}
            for name, table in with_option_columns(rows, stream.options_in(settings), None).items():
                database.execute(f"DELETE FROM {name}")
                database.register("rows", table)
                database.execute(_INSERT.format(table=name))
            covered_keys = {(token, as_of) for token in tokens for as_of in instants}
            covered_keys -= {
                (refusal.token_address, refusal.as_of)
                for refusal in result.refused
                if refusal.error.code != NoHolders.code
            }
            listed = [(stream.name, self._chain, as_of, token) for token, as_of in sorted(covered_keys)]
            database.executemany("INSERT INTO coverage (family, chain, timestamp, subject) VALUES (?, ?, ?, ?)", listed)
        database.execute("CHECKPOINT")  # otherwise deleted rows stay in memory


def _undone(earlier: Sequence[Alert], alerts: Sequence[Alert], tokens: Sequence[str], at: datetime) -> list[Notice]:
    """Return a notice for each of the ``earlier`` alerts about ``tokens`` that is not in ``alerts`` any more."""
    holding = {(alert.name, alert.token_address, alert.subject) for alert in alerts}
    return [
        alert_undone(alert, at)
        for alert in earlier
        if alert.token_address in tokens and (alert.name, alert.token_address, alert.subject) not in holding
    ]


def _common(tokens_by_chain: Tokens, other_tokens: Tokens) -> Tokens:
    """Return the tokens that are in both."""
    return {
        chain: [token for token in tokens if token in other_tokens.get(chain, ())]
        for chain, tokens in tokens_by_chain.items()
    }
