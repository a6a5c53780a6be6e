"""How a service logs: one line a record, as JSON for collectors or as text for people.

A traceback in a request tells types and places but no messages, which quote what callers sent.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias

from pythonjsonlogger.json import JsonFormatter

from holderlake.contract.text import printable
from holderlake.service.observability.observation import Observation, request_id

Log: TypeAlias = Literal["json", "text", "off"]

_requests = logging.getLogger("holderlake.service.requests")
_requests.setLevel(logging.CRITICAL + 1)  # silent in a process that merely has a service in it

_ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
_LEVELS: Final = {"json": "INFO", "text": "INFO", "off": "WARNING"}


def log_config(log: Log) -> dict[str, Any]:
    """A configuration for ``logging.config.dictConfig``: everything to standard error, ours and libraries' alike.

    ``off`` leaves warnings and errors, as text.
    """
    ours = {"level": _LEVELS[log], "handlers": [], "propagate": True}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": JsonLines if log == "json" else TextLines}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": dict.fromkeys(("holderlake", "pipelines", "uvicorn", "uvicorn.error"), ours)
        | {"holderlake.service.requests": ours | {"level": "CRITICAL" if log == "off" else "INFO"}},
    }


def log_request(
    seen: Observation, *, method: str, route: str, status: int | None, ms: float, size: int, client: str | None
) -> None:
    """The line of a request that has ended. ``status`` is None where no answer began."""
    level = logging.ERROR if status is None or status >= 500 else logging.INFO
    if not _requests.isEnabledFor(level):
        return
    fields = {
        "method": method,
        "route": route,
        "status": status,
        "code": seen.code,
        "ms": ms,
        "bytes": size,
        "client": client,
        "key": seen.key,
        "account": seen.account,
        "cost": seen.cost,
        "cached": seen.cached,
        "failure": seen.failure,
    }
    # Without a look at the stack for who logs: it would cost as much as the rest of the line.
    record = logging.LogRecord(_requests.name, level, "", 0, "request", None, None)
    record.fields = fields
    _requests.handle(record)


class JsonLines(JsonFormatter):
    """A record as one line of JSON, in ASCII."""

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        """What a line holds: nothing of what libraries hang on their records."""
        log_data["time"] = _time(record)
        log_data["level"] = record.levelname.lower()
        log_data["logger"] = record.name
        log_data["message"] = record.getMessage().strip()
        log_data["process"] = record.process
        log_data["request_id"] = request_id()
        log_data.update(getattr(record, "fields", {}))
        log_data.update(message_dict)

    def jsonify_log_record(self, log_data: dict[str, Any]) -> str:
        """The line."""
        return json.dumps(log_data, default=str)

    def formatException(self, ei: _ExcInfo) -> str:
        """A traceback without what callers sent."""
        return _traceback(ei)


class TextLines(logging.Formatter):
    """A record as one readable line; a traceback follows, indented."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = getattr(record, "fields", None)
        said = _request_text(fields) if fields else f"{record.name}: {record.getMessage().strip()}"
        within = request_id()
        line = f"{_time(record)} {record.levelname:<7} {said}{f' id={within}' if within else ''}"
        rows = _traceback(record.exc_info).splitlines() if record.exc_info else []
        return "\n".join((printable(line), *(f"    {printable(row)}" for row in rows)))


def _request_text(fields: dict[str, Any]) -> str:
    notes = [f"{name}={fields[name]}" for name in ("client", "key", "account", "cost") if fields[name] is not None]
    notes += ["cached"] if fields["cached"] else []
    notes += [f"failure={fields['failure']}"] if fields["failure"] else []
    outcome = " ".join(str(part) for part in (fields["status"] or "no answer", fields["code"]) if part)
    return f"{fields['method']} {fields['route']} {outcome} {fields['ms']} ms {fields['bytes']} bytes {' '.join(notes)}"


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _traceback(info: _ExcInfo) -> str:
    """Within a request: types and places only; the source's own lines are no secret."""
    if request_id() is None:
        return "".join(traceback.format_exception(*info))
    return "\ncaused\n".join(_places(error) for error in reversed(_chain(info[1])))


def _chain(error: BaseException | None) -> list[BaseException]:
    """An exception and what led to it."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


def _places(error: BaseException) -> str:
    system = f": {error.strerror}" if isinstance(error, OSError) else ""  # such as a full disk; it names no file
    return f"{''.join(traceback.format_tb(error.__traceback__))}{type(error).__qualname__}{system}"
