"""Lease of a bucket: the right of one home to write to it, for ten minutes after each renewal.

Without a common ledger two homes could pay for the same answer, so only one of them may write at a time. The lease is
an object that is replaced by conditional puts. Any number of processes of a home share it.
"""

from __future__ import annotations

import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Final
from uuid import uuid4

import msgspec

from holderlake.core.lake.manifests import LakeError
from holderlake.core.storage.atomic_files import write_whole
from holderlake.scale.bucket.objects import Objects

WRITER: Final = "_writer.json"
_SECONDS: Final = 600.0
_ATTEMPTS: Final = 10


class _Lease(msgspec.Struct):
    """``home`` is a random id of the home that may write, ``host`` its machine, ``until`` the end in unix seconds."""

    home: str
    host: str
    until: float


class WriterLease:
    """The lease of the home whose copies of a bucket lie in ``folder``. For any number of threads."""

    def __init__(self, objects: Objects, folder: Path) -> None:
        self._objects = objects
        self._id_path = folder / "writer"
        self._renew_at = 0.0
        self._lock = Lock()

    def hold(self) -> bool:
        """Take the lease, or renew it if half of its time has passed. Return True if it was taken or renewed.

        Raises ``LakeError`` if another home has it.
        """
        with self._lock:
            if time.time() < self._renew_at:
                return False
            for _ in range(_ATTEMPTS):  # another process of this home may renew it at the same time
                if self._renewed():
                    return True
        raise LakeError(
            f"the lease {self._objects.url}/{WRITER} was not renewed: other processes changed it during each of "
            f"{_ATTEMPTS} attempts; try again"
        )

    def _renewed(self) -> bool:
        stored_object = self._objects.get(WRITER)
        now = time.time()
        if stored_object:
            active_lease = msgspec.json.decode(stored_object[0], type=_Lease)
            if active_lease.home != self._home and active_lease.until > now:
                until = datetime.fromtimestamp(active_lease.until, UTC)
                raise LakeError(
                    f"{self._objects.url} is written by another home, on {active_lease.host}, and may not be written "
                    f"by this one before {until:%H:%M:%S} UTC. Without PostgreSQL a lake in a bucket has one writer at "
                    "a time: set state.url on both, or stop the other one and wait until then"
                )
        lease = _Lease(self._home, socket.gethostname(), now + _SECONDS)
        if (
            self._objects.put_if(WRITER, msgspec.json.encode(lease), stored_object[1] if stored_object else None)
            is None
        ):
            return False
        self._renew_at = now + _SECONDS / 2
        return True

    @property
    def _home(self) -> str:
        """The id of this home, which is made at its first use."""
        if not self._id_path.exists():
            write_whole(self._id_path, uuid4().hex.encode())
        return self._id_path.read_text("utf-8")
