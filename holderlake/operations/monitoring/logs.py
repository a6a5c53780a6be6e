"""Log lines of Dagster's runs as JSON, with run, job, step, asset and partition.

``dagster.yaml`` may name ``JsonLines`` as a formatter, see docs/running.md. This module reads the fields that Dagster
adds to each log record, and does not import Dagster.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Final

from pythonjsonlogger.json import JsonFormatter

_PARTITION: Final = "dagster/partition"
_RANGE: Final = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")


class JsonLines(JsonFormatter):
    """Formats a log record as one line of ASCII JSON: time, level, logger, message, and the Dagster run, if any."""

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        """Fill ``log_data`` with the fields of the JSON line, and leave out the other data that Dagster attaches."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        log_data |= {"time": time.replace("+00:00", "Z"), "level": record.levelname.lower(), "logger": record.name}
        dagster = getattr(record, "dagster_meta", None)
        log_data["message"] = dagster["orig_message"] if dagster else record.getMessage()
        if dagster:
            log_data |= {name: value for name, value in _fields(dagster).items() if value is not None}
        log_data |= message_dict


def _fields(meta: dict[str, Any]) -> dict[str, Any]:
    """Return the fields about the run and its event, from the ``dagster_meta`` of a log record."""
    event, tags = meta.get("dagster_event"), meta["job_tags"]
    span = [tags[name] for name in _RANGE if name in tags]
    return {
        "run": meta["run_id"],
        "job": meta["job_name"],
        "step": meta["step_key"],
        "partition": getattr(event, "partition", None) or tags.get(_PARTITION) or "...".join(span) or None,
        "asset": event.asset_key.to_user_string() if event and event.asset_key else None,
        "event": event.event_type_value if event else None,
    }
