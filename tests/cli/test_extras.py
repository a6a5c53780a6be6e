"""Extras: the base needs none of their packages, and a missing one is named with the command that installs it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from holderlake.cli import main
from holderlake.core import extras

ROOT = Path(__file__).parents[2]
_WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


def without(packages: list[str], code: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process that cannot import these packages."""
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT.format(absent=packages) + code],
        env={"HOLDERLAKE_HOME": str(home), "PATH": "", "PYTHONPATH": str(ROOT)},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.integration
def test_pipeline_and_warehouse_need_no_extra(tmp_path: Path) -> None:
    modules = "holderlake.presentation.client, holderlake.pipelines.definitions, "
    modules += "holderlake.operations.doctor.doctor, holderlake.operations.maintenance.rebuild_lake"
    run = without(list(extras.EXTRA_OF), f"import {modules}, holderlake.core.ingest.run", tmp_path)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "extra"),
    [("demo", "sample"), ("explore", "service"), ("mcp", "mcp"), ("ui", "ui"), ("report eth 0x1", "plots")],
)
def test_a_command_names_the_extra_that_it_lacks(command: str, extra: str, tmp_path: Path) -> None:
    lacking = [package for package, name in extras.EXTRA_OF.items() if name == extra]
    code = f"sys.argv = ['holderlake', *{command.split()}]\nfrom holderlake.cli.main import main\nmain()"
    run = without(lacking, code, tmp_path)
    assert run.returncode == 1
    assert f"pip install 'holderlake[{extra}]'" in run.stderr
    assert "Traceback" not in run.stderr


def test_an_import_that_no_extra_provides_is_no_expected_error() -> None:
    assert extras.advice(ModuleNotFoundError("No module named 'elsewhere'", name="elsewhere")) is None
    assert main.exit_code(extras.missing("mcp")) == 1


def test_each_extra_of_a_package_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.EXTRA_OF.values()) <= declared.keys()
