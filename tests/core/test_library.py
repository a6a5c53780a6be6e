"""``import holderlake``: public names, without Dagster, without cost until they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holderlake


@pytest.mark.parametrize("name", holderlake.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(holderlake, name) is not None
    assert name in dir(holderlake)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'warehose'"):
        holderlake.warehose  # noqa: B018 - the access is the test


def test_the_library_imports_no_dagster_and_nothing_heavy_by_itself() -> None:
    code = "import sys, holderlake; print(sorted({'dagster', 'pyarrow', 'duckdb', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.long
def test_all_public_names_together_import_no_dagster() -> None:
    code = (
        "import sys, holderlake; [getattr(holderlake, n) for n in holderlake.__all__]; print('dagster' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_package_ships_its_types() -> None:
    from importlib.resources import files

    assert files("holderlake").joinpath("py.typed").is_file()
