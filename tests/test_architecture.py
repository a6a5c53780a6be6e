"""The rooms import each other in one direction only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALLOWED = {
    "contract": set(),
    "engine": {"contract"},
    "cluster": {"contract", "engine"},
    "service": {"contract", "engine"},
    "resources": {"contract"},
    "assets": {"contract", "resources"},
    "explorer": {"contract", "resources"},
}


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_what_stands_before_it(room: str) -> None:
    for path in (ROOT / room).rglob("*.py"):
        strangers = _rooms_imported(path) - ALLOWED[room] - {room}
        assert not strangers, f"{path.relative_to(ROOT)} imports {strangers}"


def _rooms_imported(path: Path) -> set[str]:
    rooms = {*ALLOWED, "pipelines"}
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        found |= {name.split(".")[0] for name in names} & rooms
    return found
