"""The shipped page is the build of its sources, small, and lists the licences of bundled code."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from holderlake.presentation.explorer.app import STATIC
from tests.presentation.explorer.serving import ROOT, built_with

pytestmark = pytest.mark.integration

PAGE = ROOT / "web"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_building_the_page_again_gives_the_same_bytes(tmp_path: Path) -> None:
    built_with()
    subprocess.run(["node", "build.mjs", str(tmp_path / "built")], cwd=PAGE, check=True)
    built, shipped = files(tmp_path / "built"), files(STATIC)
    changed = [name for name in {*built, *shipped} if built.get(name) != shipped.get(name)]
    assert not changed, f"{changed} differ: run 'npm run build' in web"


@pytest.mark.long
def test_the_sources_of_the_page_are_typed() -> None:
    compiler = built_with() / ".bin" / "tsc"
    done = subprocess.run([str(compiler), "--noEmit"], cwd=PAGE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_page_is_small_and_names_no_other_host() -> None:
    shipped = files(STATIC)
    assert sum(map(len, shipped.values())) < 500_000
    code = b"".join(text for name, text in shipped.items() if name != "licences.txt")
    hosts = set(re.findall(rb"(?:https?:)?//([a-z0-9-]+(?:\.[a-z0-9-]+)+)", code))
    assert hosts == {b"www.w3.org"}  # names of XML's namespaces; nothing is fetched there


def test_licences_list_every_bundled_library() -> None:
    licences = (STATIC / "licences.txt").read_text()
    for name, version in json.loads((PAGE / "package.json").read_text())["dependencies"].items():
        assert f"\n{name} {version} (" in licences


def test_the_lock_has_hashes_and_no_addresses_of_downloads() -> None:
    packages = json.loads((PAGE / "package-lock.json").read_text())["packages"]
    locked = [one for name, one in packages.items() if name]
    assert locked
    assert all(one["integrity"].startswith("sha512-") and "resolved" not in one for one in locked)
