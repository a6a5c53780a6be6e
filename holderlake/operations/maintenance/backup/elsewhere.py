"""Parts of a home that no backup copies: a lake in a bucket, and databases in PostgreSQL."""

from __future__ import annotations

from typing import Final

from sqlalchemy import MetaData, text

from holderlake.core.lake.lake import LakeError
from holderlake.core.storage.postgresql import Postgres
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.core.storage.state import PostgresState
from holderlake.core.workspace import Workspace
from holderlake.service.settings import ServiceSettings

LAKE: Final = "lake.url"
STATE: Final = "state.url"
SERVICE: Final = "service.database"
_COPY: Final = {
    "s3": "aws s3 sync",
    "gs": "gcloud storage rsync --recursive",
    "az": "rclone sync",
    "file": "rclone sync",
}
"""Command that copies a bucket, by the scheme of its URL."""


def elsewhere(workspace: Workspace) -> dict[str, str]:
    """Return each part that a backup of the home lacks, by the setting that names its place, with how to copy it."""
    settings, parts = workspace.settings, {}
    if url := settings.lake.url:
        command = _COPY[url.partition(":")[0]]
        parts[LAKE] = f"lake and archive in {url}: switch on versioning there, or copy it: {command} {url} TARGET"
    if settings.state.url is not None:
        options = f"--format=custom --schema={settings.state.schema_name} --file=state.dump"
        parts[STATE] = f'ledger and other state in PostgreSQL: pg_dump {options} "$HOLDERLAKE_STATE__URL"'
    if settings.section(ServiceSettings).database is not None:
        command = 'pg_dump --format=custom --file=service.dump "$HOLDERLAKE_SERVICE__DATABASE"'
        parts[SERVICE] = f"keys and charges of the service in PostgreSQL: {command}"
    return parts


def missing_elsewhere(workspace: Workspace, setting_names: list[str]) -> list[str]:
    """Return a sentence with the remedy for each part that a backup lacks and that is not found at its place either.

    ``setting_names`` are the settings that name the places of such parts (``Listing.elsewhere``).
    """
    settings, missing = workspace.settings, []
    if LAKE in setting_names:
        missing += _missing_lake(workspace, settings.lake.url)
    if STATE in setting_names:
        missing += _missing_state(workspace.state(settings.ledger))
    if SERVICE in setting_names and settings.section(ServiceSettings).database is None:
        missing.append(f"the keys of the service were in PostgreSQL: set {SERVICE}, HOLDERLAKE_SERVICE__DATABASE")
    return missing


def _missing_lake(workspace: Workspace, url: str | None) -> list[str]:
    if url is None:
        return [f"the lake of the backup was in a bucket: set {LAKE} to it, or to its copy"]
    try:
        is_empty = next(iter(workspace.lake.storage.texts()), None) is None
    except LakeError as error:
        return [str(error)]
    return [f"{url} has no partitions: restore the bucket, or set {LAKE} to its copy"] if is_empty else []


def _missing_state(place: object) -> list[str]:
    if not isinstance(place, Postgres):
        return [f"the ledger of the backup was in PostgreSQL: set {STATE}, HOLDERLAKE_STATE__URL"]
    try:
        database = PostgresState(place, MetaData())
        is_empty = database.rows(text("SELECT to_regclass('entries') IS NULL")) == [(True,)]
        database.close()
    except DatabaseError as error:
        return [str(error)]
    remedy = "pg_restore brings it back; without it the next command makes the ledger from the archive"
    return [f"{database} has no ledger: {remedy}"] if is_empty else []
