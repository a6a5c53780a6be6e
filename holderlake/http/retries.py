"""Log lines for calls that are sent again."""

from __future__ import annotations

import logging

import stamina.instrumentation
from stamina.instrumentation import RetryDetails

_log = logging.getLogger(__name__)


def log_retries() -> None:
    """Report retries as one sentence at level INFO, instead of as stamina does.

    By default stamina uses any logging library that it finds. structlog's default prints to standard output.
    """
    stamina.instrumentation.set_on_retry_hooks([_log_retry])


def _log_retry(details: RetryDetails) -> None:
    # without the error's text and the arguments, which may contain secrets
    reason, seconds = type(details.caused_by).__name__, details.wait_for
    _log.info("attempt %d failed (%s); trying again in %.1f s", details.retry_num, reason, seconds)
