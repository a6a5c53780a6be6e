"""Formats log records as lines of JSON or text, with the id of the current request.

A traceback within a request shows types and code positions but no messages, which may quote the caller's input.
"""

from __future__ import annotations

import json
import logging
import traceback
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias

from holderlake.core.contract.text import printable

Log: TypeAlias = Literal["json", "text", "off"]


@dataclass(slots=True)
class Observation:
    """Facts about one request, for its log line. The middleware creates it, and routes set its fields.

    ``key`` is the prefix of the caller's key, ``cost`` is in hundredths of a credit, and ``cached`` is true if the
    answer came from the cache. ``code`` is the contract's error code, ``failure`` the type of an unexpected exception.
    """

    request_id: str
    key: str | None = None
    account: Any = None
    cost: int | None = None
    cached: bool | None = None
    code: str | None = None
    failure: str | None = None


current_observation: ContextVar[Observation | None] = ContextVar("observation", default=None)


def observation() -> Observation:
    """Return the observation of the current request. Outside a request, return an object that is never logged."""
    return current_observation.get() or Observation("")


def _request_id() -> str | None:
    current = current_observation.get()
    return None if current is None else current.request_id


_requests = logging.getLogger("holderlake.service.requests")
_requests.setLevel(logging.CRITICAL + 1)  # silent in a process that only embeds a service

_ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
_MOST_CAUSES: Final = 20
_LEVELS: Final = {"json": "INFO", "text": "INFO", "off": "WARNING"}


def log_config(log: Log) -> dict[str, Any]:
    """Return a configuration for ``logging.config.dictConfig``: all loggers write to standard error.

    ``off`` logs warnings and errors only, as text.
    """
    ours = {"level": _LEVELS[log], "handlers": [], "propagate": True}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": ServiceJsonLines if log == "json" else TextLines}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": dict.fromkeys(("holderlake", "uvicorn", "uvicorn.error"), ours)
        | {"holderlake.service.requests": ours | {"level": "CRITICAL" if log == "off" else "INFO"}},
    }


def log_request(
    observation: Observation, *, method: str, route: str, status: int | None, ms: float, size: int, client: str | None
) -> None:
    """Log one line about a request that has ended. ``size`` is the answer's bytes, ``ms`` the duration in milliseconds.

    ``status`` is None if no answer was started. ``route`` is the path's template, ``client`` the caller's IP address.
    """
    level = logging.ERROR if status is None or status >= 500 else logging.INFO
    if not _requests.isEnabledFor(level):
        return
    fields = {
        "method": method,
        "route": route,
        "status": status,
        "code": observation.code,
        "ms": ms,
        "bytes": size,
        "client": client,
        "key": observation.key,
        "account": observation.account,
        "cost": observation.cost,
        "cached": observation.cached,
        "failure": observation.failure,
    }
    # Not by Logger.log: its search for the calling frame costs as much as the rest of the line.
    record = logging.LogRecord(_requests.name, level, "", 0, "request", None, None)
    record.fields = fields
    _requests.handle(record)


class ServiceJsonLines(logging.Formatter):
    """Formats a record as one line of ASCII JSON, with the service's own fields only."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage().strip(),
            "process": record.process,
            "request_id": _request_id(),
            **getattr(record, "fields", {}),
        }
        return json.dumps(line | ({"exc_info": _traceback(record.exc_info)} if record.exc_info else {}), default=str)


class TextLines(logging.Formatter):
    """Formats a record as one readable line, followed by an indented traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        fields = getattr(record, "fields", None)
        text = _request_text(fields) if fields else f"{record.name}: {record.getMessage().strip()}"
        current = _request_id()
        line = f"{_time(record)} {record.levelname:<7} {text}{f' id={current}' if current else ''}"
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
    """Return a traceback as text. Within a request, messages of errors are left out: they may quote the caller."""
    if _request_id() is None:
        return "".join(traceback.format_exception(*info))
    places: list[str] = []
    error = info[1]
    while error is not None and len(places) < _MOST_CAUSES:
        system = f": {error.strerror}" if isinstance(error, OSError) else ""  # for example a full disk; names no file
        places.append(f"{''.join(traceback.format_tb(error.__traceback__))}{type(error).__qualname__}{system}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\ncaused\n".join(reversed(places))
