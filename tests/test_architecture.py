"""Imports run in one direction, without circles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = {
    "contract": set(),
    "units": set(),
    "extras": set(),
    "signals": set(),
    "storage": {"contract"},
    "http": {"contract"},
    "console": {"contract"},
    "settings": {"contract"},
    "archive": {"contract", "storage"},
    "provider": {"contract", "storage", "http", "archive"},
    "decoding": {"contract"},
    "lake": {"contract", "storage"},
    "warehouse": {"contract", "storage", "settings", "lake"},
    "workspace": {"contract", "storage", "http", "settings", "archive", "provider", "lake", "warehouse"},
    "errors": {"settings", "storage", "provider", "lake", "warehouse", "engine"},
    "client": {"contract", "provider"},
    "ingest": {"signals", "contract", "storage", "settings", "archive", "provider", "decoding", "lake", "workspace"},
    "backfill": {"contract", "storage", "settings", "archive", "provider", "lake", "workspace", "ingest"},
    "healing": {
        *("contract", "storage", "settings", "archive", "provider", "decoding", "lake", "workspace"),
        *("ingest", "backfill"),
    },
    "comparison": {"storage", "warehouse", "export"},
    "alerts": {"contract", "storage", "http", "settings", "provider", "warehouse", "workspace", "ingest"},
    "engine": {"contract", "storage", "http"},
    "cluster": {"contract", "engine", "storage"},
    "entities": {"contract", "engine", "storage"},
    "service": {"signals", "contract", "engine", "storage", "settings", "entities", "pictures"},
    "monitoring": {"contract", "storage", "lake", "workspace", "ingest", "backfill", "healing"},
    "pictures": {"contract"},
    "export": {"contract", "storage", "warehouse", "console", "pictures"},
    "explorer": {"signals", "contract", "warehouse", "engine", "service"},
    "iceberg": {"contract", "storage", "lake", "workspace"},
    "mcp": {"signals", "contract", "warehouse", "export", "pictures"},
    "maintenance": {
        *("contract", "storage", "archive", "provider", "decoding", "lake", "warehouse", "workspace", "ingest"),
        *("console", "engine"),
    },
    "local": {
        *("signals", "contract", "storage", "http", "settings", "provider", "lake", "warehouse", "workspace", "alerts"),
        *("engine", "service"),
    },
}
"""The packages and modules that each one of the library may import, besides ``units`` and ``extras``."""
TOPMOST = ("dagster", "doctor", "cli")
for _name in TOPMOST:
    LIBRARY[_name] = {*LIBRARY}
APPLICATION = {"resources": set(), "assets": {"resources"}, "pipelines": {"resources", "assets"}}


@pytest.mark.parametrize("package", LIBRARY)
def test_a_package_imports_only_the_packages_below_it(package: str) -> None:
    for module in _modules(f"holderlake.{package}"):
        imported = {name.split(".")[1] for name in _imports(module) if name.startswith("holderlake.")}
        refused = imported - LIBRARY[package] - {package, "units", "extras"}
        assert not refused, f"{module} imports {refused}"


@pytest.mark.parametrize("package", [name for name in LIBRARY if name not in TOPMOST])
def test_no_package_may_import_what_it_does_not(package: str) -> None:
    imports = {name for module in _modules(f"holderlake.{package}") for name in _imports(module)}
    unused = LIBRARY[package] - {name.split(".")[1] for name in imports if name.startswith("holderlake.")}
    assert not unused


def test_only_the_topmost_packages_print_more_than_progress() -> None:
    for name in {*LIBRARY} - {*TOPMOST, "console"}:
        for module in _modules(f"holderlake.{name}"):
            printed = set(re.findall(r"\bconsole\.(\w+)", _file(module).read_text()))
            assert printed <= {"progress"}, module


@pytest.mark.parametrize("package", APPLICATION)
def test_the_application_imports_the_library_and_never_backwards(package: str) -> None:
    for module in _modules(package):
        imported = {name.split(".")[0] for name in _imports(module)}
        refused = (imported & {*APPLICATION, "tests"}) - APPLICATION[package] - {package}
        assert not refused, f"{module} imports {refused}"


def test_only_the_topmost_packages_of_the_library_import_dagster() -> None:
    for module in _modules("holderlake"):
        if not module.startswith(tuple(f"holderlake.{name}" for name in TOPMOST)):
            assert not any(name.split(".")[0] == "dagster" for name in _imports(module)), module


@pytest.mark.parametrize("package", ["holderlake", *APPLICATION])
def test_modules_and_packages_import_each_other_without_circles(package: str) -> None:
    modules = {name for top in ("holderlake", *APPLICATION) for name in _modules(top)}
    for parent in {package, *(name for name in _modules(package) if _is_package(name))}:
        children: dict[str, set[str]] = {}
        for module in modules:
            child = _child(parent, module)
            if child:
                imported = {_child(parent, name) for name in _imports(module)}
                children.setdefault(child, set()).update(name for name in imported if name and name != child)
        assert not _circle(children), f"in {parent}: {_circle(children)}"


def _modules(package: str) -> Iterator[str]:
    """Every module of a package, or the one module of that name."""
    path = ROOT / package.replace(".", "/")
    for file in [path.with_suffix(".py")] if path.with_suffix(".py").exists() else path.rglob("*.py"):
        yield ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _is_package(module: str) -> bool:
    return (ROOT / module.replace(".", "/") / "__init__.py").exists()


def _file(module: str) -> Path:
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if _is_package(module) else path.with_suffix(".py")


def _child(parent: str, module: str) -> str | None:
    """The module or package directly below ``parent`` that ``module`` is part of."""
    return module.removeprefix(f"{parent}.").split(".")[0] if module.startswith(f"{parent}.") else None


@cache
def _imports(module: str) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(_file(module).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def _circle(children: dict[str, set[str]]) -> list[str]:
    """The names that are left when those that import nothing that is left are taken away again and again."""
    left = dict(children)
    while free := [name for name, imported in left.items() if not imported & set(left)]:
        for name in free:
            del left[name]
    return sorted(left)
