"""Record that the schedule is paused: credits are exhausted, so scheduled runs wait until there are credits again.

The record is a JSON file in the home's folder ``paused_schedule``, or a row in PostgreSQL. ``backfill.paused`` has
paused backfills.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Final

import msgspec

from holderlake.core.provider.errors import PermanentError
from holderlake.core.settings import Settings, SettingsError
from holderlake.core.storage.documents import Documents
from holderlake.core.workspace import Workspace
from holderlake.operations.backfill.paused import Pause, pause_after

_NAME: Final = "schedule"


@dataclass(frozen=True, kw_only=True)
class PausedSchedule(Pause):
    """The reason that scheduled runs wait. ``code`` is the error's, ``account`` a digest of the provider's address and
    the API key."""

    resume_on: date
    code: str
    account: str

    def __str__(self) -> str:
        return f"scheduled runs wait for credits until {self.resume_on}: {self.reason}"

    def is_due(self, workspace: Workspace) -> bool:
        """Return whether runs can resume: the day has come, a ceiling was raised, or there is another API key."""
        return self.account != _account(workspace.settings) or super().is_due(workspace)


def pause_schedule(workspace: Workspace, error: Exception) -> None:
    """Pause the schedule if an error says that credits are exhausted.

    The ceiling per run and the rate limit do not pause the schedule: the next run can continue.
    """
    stopped = pause_after(workspace, error)
    if isinstance(error, PermanentError) and stopped and stopped.resume_on:
        paused = PausedSchedule(code=error.code, account=_account(workspace.settings), **vars(stopped))
        paused_before = paused_schedule(workspace)
        if paused_before is None or paused_before.is_due(workspace):
            _documents(workspace).put(_NAME, msgspec.json.encode(paused))


def paused_schedule(workspace: Workspace) -> PausedSchedule | None:
    """Return the paused schedule; None if scheduled runs need not wait, or if the record is damaged."""
    for content in _documents(workspace).all():
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            return msgspec.json.decode(content, type=PausedSchedule)
    return None


def waiting_schedule(workspace: Workspace) -> PausedSchedule | None:
    """Return the paused schedule if it still has to wait; otherwise delete it, and return None.

    A schedule that waits for credits of the provider asks it first, so that a top-up is noticed.
    """
    paused = paused_schedule(workspace)
    if paused is None or not (paused.is_due(workspace) or paused.has_credits_again(workspace)):
        return paused
    _documents(workspace).remove(_NAME)
    return None


def _account(settings: Settings) -> str:
    try:
        key = settings.key()
    except SettingsError:
        key = None
    text = f"{settings.provider.url}\n{key.get_secret_value() if key else ''}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _documents(workspace: Workspace) -> Documents:
    return Documents(workspace.state(workspace.settings.home / "paused_schedule"))
