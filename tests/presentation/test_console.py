"""What commands print while they run."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from holderlake.presentation import console

REDIRECTED = """
import os
from holderlake.presentation import console
with console.progress("filling", 2):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    console.err.print("half of it is done")
console.err.print("this is lost")
"""


@pytest.mark.parametrize("batches", [[], [[]], [[{"a": 1}]], [[], [{"a": 1}, {"a": float("nan")}], [], [{"a": "é"}]]])
def test_a_list_in_batches_is_the_json_of_the_whole(
    batches: list[list[dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    console.as_json_list(batches)
    in_batches = capsys.readouterr().out
    console.as_json([row for batch in batches for row in batch])
    assert in_batches == capsys.readouterr().out


def test_progress_is_seen_while_standard_error_is_redirected_as_dagster_does() -> None:
    command = [sys.executable, "-c", REDIRECTED]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "half of it is done" in ended.stderr
    assert "this is lost" not in ended.stderr


@pytest.mark.parametrize(("value", "text"), [(5_999_999_999_999_999_899_336_704.0, "6e+24"), (2.0**52, f"{2**52:,}")])
def test_a_float_is_shown_with_no_more_digits_than_it_has(
    value: float, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    console.rows("", ["raw"], [[value]])
    assert capsys.readouterr().out.split() == ["raw", text]
