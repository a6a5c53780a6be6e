"""States of the followers of a store, one file for each chain."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from holderlake.core.storage.atomic_files import whole_file
from holderlake.core.storage.locks import is_held
from holderlake.core.units import counted

_FOLDER: Final = "followers"


@dataclass
class Follower:
    """State of following a chain: the newest stored ``block`` with its time, and when the node was last asked.

    Times are unix seconds. ``blocks``, ``rows``, ``reorgs``, ``undone`` (rows that reorganisations removed) and
    ``alerts`` (with the notices that one was undone) count since it started. Alerts of blocks after the time
    ``evaluated`` are still to be found, and so is what reorganisations undid since ``evaluated_at`` (ISO, UTC).
    ``error`` is the failure of the last look; empty if it succeeded.
    """

    chain: str
    started_at: int
    block: int | None = None
    block_time: int | None = None
    looked_at: int | None = None
    blocks: int = 0
    rows: int = 0
    reorgs: int = 0
    undone: int = 0
    alerts: int = 0
    evaluated: int | None = None
    evaluated_at: str = ""
    error: str = ""
    is_running: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        if not self.is_running:
            return (
                f"{self.chain}: stopped at block {self.block:,}" if self.block is not None else f"{self.chain}: stopped"
            )
        if self.error:
            return f"{self.chain}: the node fails ({self.error})"
        if self.block is None or self.block_time is None or self.looked_at is None:
            return f"{self.chain}: starting"
        behind = max(0, self.looked_at - self.block_time)
        return f"{self.chain}: block {self.block:,}, {behind:,} s old, {counted(self.reorgs, 'reorganisation')}"


def followers(root: Path) -> list[Follower]:
    """Return the state of each follower of the store ``root``, running or not, by chain."""
    states = []
    for path in sorted((root / _FOLDER).glob("*.json")):
        if state := read_state(path):
            states.append(replace(state, is_running=is_held(path.with_suffix(".lock"))))
    return states


def read_state(path: Path) -> Follower | None:
    """Return the state in a file; None if there is no such file or it cannot be read."""
    with suppress(ValueError, TypeError, OSError):
        return Follower(**json.loads(path.read_text("utf-8")))
    return None


def state_file(root: Path, chain: str) -> Path:
    """Return the path of the state of the follower of ``chain``, in a folder that exists."""
    path = root / _FOLDER / f"{quote(chain, safe='')}.json"
    path.parent.mkdir(exist_ok=True)
    return path


def write_state(path: Path, state: Follower) -> None:
    """Write the state for other processes."""
    with whole_file(path) as new_file:
        new_file.write_text(json.dumps(asdict(state)))
