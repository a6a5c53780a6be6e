"""The help of each command: its text, its examples, its options, and the completion of shells."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer import rich_utils
from typer.testing import CliRunner

from holderlake.cli.main import app

SERVERS = {"holderlake serve", "holderlake explore", "holderlake mcp", "holderlake ui", "holderlake home metrics"}
"""Commands that run until they are stopped. ``home metrics --once`` prints Prometheus' own format."""
SEVERAL_TEXTS = {"--chain", "--format", "--out", "--provider", "--token", "--verify"}
"""Options whose help says what they read, write or choose, which differs between commands."""


def commands(command: Any, name: str = "holderlake") -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {word}")


ALL = dict(commands(typer.main.get_command(app)))
LEAVES = {name: command for name, command in ALL.items() if not hasattr(command, "commands")}


def options(command: Any) -> dict[str, Any]:
    return {name: option for option in command.params for name in option.opts if name.startswith("--")}


@pytest.mark.parametrize("name", ALL)
def test_no_word_of_a_help_is_swallowed_as_markup(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rich_utils, "MAX_WIDTH", 1_000)
    shown = " ".join(CliRunner().invoke(app, [*name.split()[1:], "--help"]).output.split())
    texts = [ALL[name].help or "", *(getattr(option, "help", None) or "" for option in ALL[name].params)]
    for text in map(inspect.cleandoc, texts):
        assert " ".join(text.replace("\\[", "[").split()) in shown


@pytest.mark.integration
def test_help_imports_no_library_for_data() -> None:
    script = "import sys, holderlake.cli.main; print({'numpy', 'pyarrow', 'pydantic', 'dagster'} & sys.modules.keys())"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "set()"


@pytest.mark.parametrize("name", LEAVES)
def test_each_example_of_a_help_is_a_valid_command(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^ *Example: (.*)", LEAVES[name].help or "", re.MULTILINE)
    assert 1 <= len(examples) <= 3
    for folder in ("data", "other"):
        (tmp_path / folder).mkdir()
    for file in ("edges.parquet", "labels.parquet"):
        (tmp_path / file).touch()
    for example in examples:
        words = shlex.split(re.split(r" [<>] ", example)[0])
        while "=" in words[0]:  # a variable of the environment
            del words[0]
        depth = len(name.split())
        assert " ".join(words[:depth]) == name
        LEAVES[name].make_context(name, words[depth:])


@pytest.mark.parametrize("name", [name for name in LEAVES if name not in SERVERS])
def test_each_command_that_ends_prints_json(name: str) -> None:
    assert "--json" in options(LEAVES[name])


def test_an_option_of_several_commands_has_one_help() -> None:
    texts: dict[tuple[str, bool], set[str]] = defaultdict(set)
    for command in LEAVES.values():
        for name, option in options(command).items():
            texts[name, option.multiple].add(option.help or "")
    assert {key[0] for key, found in texts.items() if len(found) > 1} == SEVERAL_TEXTS


def test_only_the_commands_of_delete_and_an_upgrade_need_consent() -> None:
    consenting = {name for name, command in LEAVES.items() if "--yes" in options(command)}
    assert consenting == {
        *(name for name in LEAVES if name.startswith("holderlake delete ")),
        "holderlake home upgrade",
    }


def test_the_top_level_stays_short() -> None:
    assert len(ALL["holderlake"].commands) <= 25


@pytest.mark.parametrize(
    ("line", "completions"), [("holderlake la", {"lake"}), ("holderlake lake pu", {"push", "pull", "publish"})]
)
def test_a_shell_completes_commands(line: str, completions: set[str]) -> None:
    words = {"_HOLDERLAKE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    assert set(CliRunner().invoke(app, prog_name="holderlake", env=words).output.split()) == completions


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_both_options_show_the_help(option: str) -> None:
    assert "Usage" in CliRunner().invoke(app, ["sql", option]).output


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output.split()[0]) == (0, "holderlake")
    assert result.output.split()[1][0].isdecimal()
