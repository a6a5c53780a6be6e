"""Dagster's home in our home folder: its settings, ``DAGSTER_HOME``, and the instance with the history of runs."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holderlake.core.storage.atomic_files import full_disk, is_full, write_whole
from holderlake.core.storage.locks import locked
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.operations.history.history import check_history, removed_event_log

if TYPE_CHECKING:
    from dagster import DagsterInstance

_prepared: set[str] = set()
"""Values of ``DAGSTER_HOME`` that this process set."""
_MOVES_AWAY: Final = "'holderlake home rebuild --damaged' moves that folder away"


def own_dagster_home(home: Path) -> Path | None:
    """Return the user's ``DAGSTER_HOME``; None if there is none, or it is ``home``, or this program set it."""
    user_home = os.environ.get("DAGSTER_HOME")
    return (
        None
        if not user_home or user_home in _prepared or Path(user_home).resolve() == home.resolve()
        else Path(user_home)
    )


def prepare_dagster_home(home: Path) -> None:
    """Create Dagster's folder in the home, switch telemetry off, and set ``DAGSTER_HOME`` to the folder.

    Does nothing if the environment has a ``DAGSTER_HOME`` of the user's own. Raises ``DatabaseError`` if a later
    version wrote the history in the folder, or an earlier one the settings.
    """
    if own_dagster_home(home):
        return
    home.mkdir(parents=True, exist_ok=True)
    check_history(home)
    config = home / "dagster.yaml"
    if removed_event_log(config):
        raise DatabaseError(
            f"{config} names an event log that Holderlake no longer has: run 'holderlake home upgrade', which removes "
            "these lines; Dagster's own event log reads the same files"
        )
    if not config.exists():
        write_whole(config, files("holderlake.operations.history").joinpath("dagster.yaml").read_bytes())
    os.environ["DAGSTER_HOME"] = str(home.resolve())
    _prepared.add(os.environ["DAGSTER_HOME"])


@contextmanager
def dagster_instance(home: Path) -> Iterator[DagsterInstance]:
    """Open Dagster's history under a home.

    If the environment has a ``DAGSTER_HOME`` of the user's own, open that instead, with its own settings.

    Raises ``DatabaseError`` if one of its files is damaged or can't be written.
    """
    from dagster import DagsterInstance
    from sqlalchemy.exc import SQLAlchemyError

    user_home = own_dagster_home(home)
    config = (user_home or home) / "dagster.yaml"
    if not user_home:
        home.mkdir(parents=True, exist_ok=True)
    try:
        with ExitStack() as opened:
            with nullcontext() if user_home else locked(home / ".opening.lock"), _explained_settings(config):
                prepare_dagster_home(home)
                if not user_home:
                    _remove_empty_databases(home)
                instance = opened.enter_context(DagsterInstance.get())
            yield instance
    except (SQLAlchemyError, sqlite3.DatabaseError, OSError) as error:
        if is_full(user_home or home):
            raise DatabaseError(full_disk(user_home or home)) from error
        if isinstance(error, OSError):
            raise
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        is_broken = re.search("malformed|not a database|no such (table|column)", reason)
        remedy = (
            f"{'move that folder away' if user_home else _MOVES_AWAY}: it has the history of runs, and no data"
            if is_broken
            else "repeat the command; if that fails too, 'holderlake doctor' names damaged files"
        )
        raise DatabaseError(f"Dagster's history in {user_home or home} can't be used ({reason}); {remedy}") from error


def _remove_empty_databases(home: Path) -> None:
    """Remove databases of a history that a crash left without a byte: Dagster makes missing ones, and not these."""
    for name in ("history/runs.db", "history/runs/index.db", "schedules/schedules.db"):
        path = home / name
        if path.exists() and not path.stat().st_size:
            path.unlink()


@contextmanager
def _explained_settings(path: Path) -> Iterator[None]:
    """Raise ``DatabaseError`` within the block if Dagster cannot read its settings file."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, sqlite3.DatabaseError, OSError):
        raise
    except Exception as error:  # from Dagster, from YAML, or from a module that they name
        reason = str(error).splitlines()[0]
        raise DatabaseError(f"{path} can't be used ({reason}); move it away, and it is created again") from error
