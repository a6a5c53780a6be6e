"""Extras: optional packages, and the sentence that names what to install when one is missing."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

EXTRA_OF: Final = {
    **dict.fromkeys(("numba", "llvmlite"), "sample"),
    **dict.fromkeys(
        ("fastapi", "fastapi_offline", "starlette", "uvicorn", "uvloop", "httptools", "cachetools"),
        "service",
    ),
    **dict.fromkeys(("matplotlib", "networkx"), "plots"),
    "psycopg": "postgres",
    "dagster_webserver": "ui",
    "mcp": "mcp",
    "pyiceberg": "iceberg",
    **dict.fromkeys(("obstore", "fsspec"), "object-storage"),
    **dict.fromkeys(("pyspark", "py4j", "sqlglot"), "cluster"),
}
"""The extra that installs a package, by the name that is imported."""


def is_installed(package: str) -> bool:
    """Return whether an optional package can be imported, without importing it."""
    return find_spec(package) is not None


def advice(error: ImportError) -> str | None:
    """Return a sentence that says how to install a missing package; None if no extra of Holderlake has it."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRA_OF.get(package)
    if extra is None or not isinstance(error, ModuleNotFoundError):
        return None
    return (
        f"this needs the package {package}, which is not installed; "
        f"run pip install 'holderlake[{extra}]', or in a checkout make extras"
    )


def missing(package: str) -> ModuleNotFoundError:
    """Return the error of a package that is not installed, for ``advice``."""
    return ModuleNotFoundError(f"No module named {package!r}", name=package)
