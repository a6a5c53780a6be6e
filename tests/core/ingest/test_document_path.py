"""The modules that a document passes between httpx and its Parquet file."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType

import pyarrow as pa

import holderlake
from holderlake.assets.maps import MAPS
from tests.helpers.filling import MakeWorkspace, fill

MAX_MODULES = 17
LIBRARY = str(Path(holderlake.__file__).parent)
PROVIDER_IN_THIS_PROCESS = (f"{LIBRARY}/service", f"{LIBRARY}/engine")


def holds_document(value: object, depth: int = 3) -> bool:
    """Return True if a value is or contains the document: its bytes, or a table made from it."""
    if isinstance(value, bytes):
        return len(value) > 1_000
    if isinstance(value, pa.Table | pa.RecordBatch):
        return True
    if depth == 0 or isinstance(value, str | int | float | type | None):
        return False
    if isinstance(value, Mapping):
        return any(holds_document(each, depth - 1) for each in value.values())
    if isinstance(value, list | tuple):
        return any(holds_document(each, depth - 1) for each in value)
    return is_dataclass(value) and any(holds_document(getattr(value, each.name), depth - 1) for each in fields(value))


def is_provider(frame: FrameType | None) -> bool:
    """Whether a function runs for the provider, which is in this process too."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(PROVIDER_IN_THIS_PROCESS):
            return True
        frame = frame.f_back
    return False


@contextmanager
def modules_of_document() -> Iterator[set[str]]:
    """Collect the modules of the library that receive or return the document before it is a Parquet file."""
    modules: set[str] = set()
    is_written = False

    def profile(frame: FrameType, event: str, returned: object) -> None:
        nonlocal is_written
        file, code = frame.f_code.co_filename, frame.f_code
        is_written = is_written or (code.co_name == "write_table" and "pyarrow" in file)
        if is_written or not file.startswith(LIBRARY) or is_provider(frame):
            return
        if event == "call":
            values = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
        else:
            values = [returned] if event == "return" else []
        if any(map(holds_document, values)):
            modules.add(file.removeprefix(LIBRARY))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield modules
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_a_map_passes_at_most_seventeen_modules(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(watchlist={"eth": make_workspace().settings.watchlist["eth"][:1]})
    with modules_of_document() as modules:
        (result,) = fill(workspace, MAPS, "eth", datetime(2026, 5, 1))
    assert result.rows["maps"] == 1
    assert {"/core/http.py", "/core/provider/fetcher.py", "/core/lake/lake.py"} <= modules
    assert len(modules) <= MAX_MODULES, "\n".join(sorted(modules))
