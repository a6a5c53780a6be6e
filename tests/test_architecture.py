"""The rooms of the repository: what each may import, and the core, which imports nothing outside itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from holderlake.parts import PARTS

ROOT = Path(__file__).parents[1]
CORE = {
    "core.registry": set(),
    "core.units": set(),
    "core.extras": set(),
    "core.signals": set(),
    "core.contract": {"core.units"},
    "core.setting_types": {"core.contract", "core.units"},
    "core.storage": {"core.contract"},
    "core.http": {"core.contract"},
    "core.settings": {"core.contract", "core.setting_types", "core.registry", "core.units"},
    "core.archive": {"core.contract", "core.storage", "core.units"},
    "core.provider": {"core.contract", "core.storage", "core.http", "core.archive"},
    "core.decoding": {"core.contract"},
    "core.lake": {"core.contract", "core.storage", "core.units"},
    "core.warehouse": {"core.contract", "core.storage", "core.settings", "core.lake", "core.registry"},
    "core.workspace": {
        *("core.contract", "core.storage", "core.http", "core.settings", "core.archive", "core.provider", "core.lake"),
        *("core.warehouse", "core.registry"),
    },
    "core.ingest": {
        *("core.contract", "core.storage", "core.settings", "core.archive", "core.provider", "core.decoding"),
        *("core.lake", "core.workspace", "core.signals", "core.units"),
    },
    "core.dagster": {
        *("core.contract", "core.storage", "core.settings", "core.provider", "core.lake", "core.warehouse"),
        *("core.workspace", "core.ingest", "core.registry", "core.extras", "core.units"),
    },
    "resources": {"core.settings", "core.lake", "core.warehouse", "core.workspace", "core.dagster"},
    "assets": {
        *("core.contract", "core.settings", "core.archive", "core.decoding", "core.lake", "core.warehouse"),
        *("core.workspace", "core.ingest", "core.dagster", "core.registry", "core.units", "resources"),
        "core.setting_types",
    },
    "pipelines": {
        *("core.contract", "core.settings", "core.decoding", "core.workspace", "core.ingest", "core.dagster"),
        *("core.registry", "assets", "resources"),
    },
}
"""The modules and packages of the core, from the lowest up, and what each of them imports."""
ROOMS = {
    "engine": set(),
    "sources": {"engine"},
    "presentation": {"engine"},
    "scale": {"engine"},
    "analysis": {"engine", "presentation"},
    "service": {"engine", "sources", "presentation", "analysis"},
    "operations": {"engine", "sources", "presentation", "scale", "service"},
    "cli": {"engine", "sources", "presentation", "analysis", "service", "operations", "scale", "errors"},
    "errors": {"engine"},
    "dagster": {"sources", "operations"},
}
"""The rooms beside the core, and what each imports of the others. Each may import the core."""


@pytest.mark.parametrize("name", CORE)
def test_a_part_of_the_core_imports_only_parts_below_it(name: str) -> None:
    imported = {_core_part(module) for module in _imported(name)} - {name}
    assert imported == CORE[name]


@pytest.mark.parametrize("name", CORE)
def test_the_list_of_the_core_goes_from_the_lowest_up(name: str) -> None:
    assert CORE[name] < {*list(CORE)[: list(CORE).index(name)]} or not CORE[name]


def test_the_list_of_the_core_is_complete() -> None:
    parts = {_core_part(module) for room in ("core", "resources", "assets", "pipelines") for module in _modules(room)}
    assert parts - {"core"} == CORE.keys()


def test_each_kind_of_parts_is_declared_once_in_the_core_and_has_parts() -> None:
    modules = (module for room in ("core", "resources", "assets", "pipelines") for module in _modules(room))
    declared = [kind for module in modules for kind in re.findall(r' = Kind\(\s*"(\w+)"', _file(module).read_text())]
    assert sorted(declared) == sorted(PARTS)


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_imports_the_core_and_the_rooms_below_it(name: str) -> None:
    imported = {_room(module) for module in _imported(name)} - {name, "core"}
    assert imported == ROOMS[name]


def test_there_are_nine_rooms_and_the_three_folders_of_the_dagster_layer() -> None:
    folders = {path.name for path in (ROOT / "holderlake").iterdir() if path.is_dir() and not path.name.startswith("_")}
    three = {"assets", "resources", "pipelines"}
    assert folders == {"core", *ROOMS} - {"errors", "dagster"} | three
    assert all((ROOT / "holderlake" / name).samefile(ROOT / name) for name in three)


def test_each_room_says_what_it_is_and_what_it_may_import() -> None:
    for name in {"core", *ROOMS} - {"errors", "dagster"}:
        text = ast.get_docstring(ast.parse((ROOT / "holderlake" / name / "__init__.py").read_text())) or ""
        assert "import" in text, name


def test_each_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "holderlake").rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_only_the_command_line_and_the_doctor_print_more_than_progress() -> None:
    for name in {"core", *ROOMS} - {"cli"}:
        for module in _modules(name):
            if not module.startswith(("holderlake.operations.doctor", "holderlake.presentation.console")):
                printed = set(re.findall(r"\bconsole\.(\w+)", _file(module).read_text()))
                assert printed <= {"progress"}, module


@pytest.mark.parametrize("package", ["core", *ROOMS])
def test_modules_and_packages_import_each_other_without_circles(package: str) -> None:
    modules = {*_modules(package)}
    for parent in {f"holderlake.{package}", *(name for name in modules if _is_package(name))}:
        children: dict[str, set[str]] = {}
        for module in modules:
            child = _child(parent, module)
            if child:
                imported = {_child(parent, name) for name in _imports(module)}
                children.setdefault(child, set()).update(name for name in imported if name and name != child)
        assert not _circle(children), f"in {parent}: {_circle(children)}"


def test_each_long_test_is_in_a_step_of_the_night() -> None:
    steps = [line for line in (ROOT / ".ci" / "nightly").read_text().splitlines() if line.startswith("step ")]
    paths = [ROOT / path for line in steps for path in re.findall(r"(?<!--ignore )(?<!--deselect )tests/[\w/.]+", line)]
    files = [
        file for file in (ROOT / "tests").rglob("test_*.py") if re.search(r"mark\.long|\blong=\d", file.read_text())
    ]
    left_out = [str(file) for file in files if not any(file == path or path in file.parents for path in paths)]
    assert not left_out


def _room(module: str) -> str:
    """The room of a module, ``core`` for the three folders too."""
    room = module.split(".")[1]
    return "core" if room in ("assets", "resources", "pipelines") else room


def _core_part(module: str) -> str:
    """The part of the core that a module belongs to; the room of another module."""
    names = module.split(".")[1:]
    return ".".join(names[:2]) if names[0] == "core" else names[0]


def _imported(name: str) -> set[str]:
    """The modules of this project that the modules of a package, or a module, import; without the list of parts."""
    imports = {imported for module in _modules(name) for imported in _imports(module)}
    return {imported for imported in imports if imported.count(".") and imported != "holderlake.errors.annotations"}


def _modules(package: str) -> Iterator[str]:
    """Every module of a package below ``holderlake``, or the one module of that name."""
    path = ROOT / "holderlake" / package.replace(".", "/")
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
    """The modules of this project that a module imports, with the name that it takes from each."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(_file(module).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(name for name in names if name.startswith("holderlake."))


def _circle(children: dict[str, set[str]]) -> list[str]:
    """The names that are left when those that import nothing that is left are taken away again and again."""
    left = dict(children)
    while free := [name for name, imported in left.items() if not imported & set(left)]:
        for name in free:
            del left[name]
    return sorted(left)
