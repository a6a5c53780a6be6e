"""The help of each command shows the text of the source."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from rich.markup import render
from typer.testing import CliRunner

from holderlake.cli.main import app


def commands(command: Any, name: str = "holderlake") -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {word}")


ALL = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", ALL)
def test_no_word_of_a_help_is_swallowed_as_markup(name: str) -> None:
    command = ALL[name]
    texts = [command.help or "", *(getattr(option, "help", None) or "" for option in command.params)]
    for text in map(inspect.cleandoc, texts):
        assert render(text).plain == text.replace("\\[", "[")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_both_options_show_the_help(option: str) -> None:
    assert "Usage" in CliRunner().invoke(app, ["sql", option]).output


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output.split()[0]) == (0, "holderlake")
    assert result.output.split()[1][0].isdecimal()
