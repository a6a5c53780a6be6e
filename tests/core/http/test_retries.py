"""Log lines of calls that are sent again."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
import stamina

import holderlake
from holderlake.core.http import log_retries

LIBRARY = Path(holderlake.__file__).parent


def test_a_retry_is_logged_as_one_sentence_without_secrets(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    log_retries()
    attempts = stamina.RetryingCaller(attempts=2, wait_initial=0, wait_max=0, wait_jitter=0)

    def refuse(key: str) -> None:
        raise ConnectionError(f"refused {key}")

    with caplog.at_level(logging.DEBUG), pytest.raises(ConnectionError):
        attempts(ConnectionError, refuse, "sekret")
    (line,) = caplog.records
    assert re.fullmatch(r"attempt 1 failed \(ConnectionError\); trying again in 0\.\d s", line.getMessage())
    assert line.levelno == logging.INFO
    assert capsys.readouterr() == ("", "")


def test_each_module_that_retries_logs_by_this_sentence() -> None:
    sources = {path: path.read_text() for path in LIBRARY.rglob("*.py") if path != LIBRARY / "core" / "http.py"}
    retrying = {path for path, source in sources.items() if re.search(r"^import stamina", source, re.MULTILINE)}
    assert retrying
    assert [path for path in retrying if "\nlog_retries()\n" not in sources[path]] == []
    assert [path for path in retrying if "set_on_retry_hooks" in sources[path]] == []
