"""A host with the service, a code server and Dagster's daemon, which are killed and started again.

They are the commands of ``deploy/systemd``, as separate processes under a shifted clock. The home is a small disk of
its own in memory.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from holderlake.operations.history.instance import prepare_dagster_home
from holderlake.service.billing.keys import KeyStore
from holderlake.sources.sample_world import sample_store
from tests.end_to_end.shifted_clock import ShiftedClock
from tests.helpers.processes import ROOT
from tests.helpers.real import missing

DISK_MEGABYTES: Final = 16_000
OPEN: Final = RunsFilter(
    statuses=[
        DagsterRunStatus.QUEUED,
        DagsterRunStatus.NOT_STARTED,
        DagsterRunStatus.STARTING,
        DagsterRunStatus.STARTED,
        DagsterRunStatus.CANCELING,
    ]
)
_STARTING: Final = RunsFilter(statuses=[DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTING])
_START_SECONDS: Final = 60.0
"""Longest time for the start of a run's process on a busy machine; Dagster ends it after 300 seconds by the clock."""
_PIPELINE: Final = ("code", "daemon")
_PATIENCE: Final = 900.0
"""Seconds of real time after which a wait fails the test."""
_STEP: Final = timedelta(seconds=2.5)
_PAUSE: Final = 0.5


@dataclass
class Host:
    """The processes of one host, its clock, and its disk ``folder / "disk"``."""

    folder: Path
    clock: ShiftedClock
    watchlist: dict[str, list[str]]
    schedule: str = ""
    """Lines of the section ``[schedule]``."""
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.disk, self.home = self.folder / "disk", self.folder / "disk" / "home"
        self.disk.mkdir()
        self.ports = {name: _free_port() for name in ("service", "code")}
        self.keys: KeyStore

    @contextmanager
    def opened(self) -> Iterator[Host]:
        """Mount the disk, create the account at the service, and start all processes until the block ends."""
        _mount(self.disk, f"size={DISK_MEGABYTES}m")
        try:
            sample_store(self.folder / "provider")
            with KeyStore(self.folder / "provider" / "service" / "accounts.sqlite", now=self.clock.now) as self.keys:
                self.use_key(self.keys.create("year", 10**9, custom_plan=True))
                self.write_settings()
                prepare_dagster_home(self.home / "dagster")
                self.start("service", *_PIPELINE)
                self.command("dagster", "schedule", "start", "--start-all", "--workspace", "workspace.yaml")
                yield self
        finally:
            self.kill(*list(self.running))
            subprocess.run([*_ROOT, "umount", "--lazy", self.disk], check=True)

    # ------------------------------------------------------------------------------------------------- settings

    def use_key(self, secret: str) -> None:
        """Write the API key into the file that the pipeline reads."""
        self.secret = secret
        (self.folder / "api-key").write_text(secret)

    def write_settings(self) -> None:
        tokens = "\n".join(f"{chain} = {found!r}" for chain, found in self.watchlist.items())
        (self.folder / "holderlake.toml").write_text(
            f'[provider]\nurl = "http://127.0.0.1:{self.ports["service"]}"\nattempts = 2\n'
            f'[retention]\nhistory = "30d"\ncron = "40 3 * * 0"\n'
            f"[schedule]\n{self.schedule}\n[watchlist]\n{tokens}\n"
        )
        (self.folder / "workspace.yaml").write_text(
            "load_from:\n  - grpc_server:\n      location_name: holderlake\n      host: 127.0.0.1\n"
            f"      port: {self.ports['code']}\n"
        )

    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("HOLDERLAKE_")}
        return (
            own
            | self.clock.environment(ROOT)
            | {
                "HOLDERLAKE_HOME": str(self.home),
                "HOLDERLAKE_CONFIG": str(self.folder / "holderlake.toml"),
                "HOLDERLAKE_API_KEY_FILE": str(self.folder / "api-key"),
                "DAGSTER_HOME": str(self.home / "dagster"),
            }
        )

    # ------------------------------------------------------------------------------------------------- processes

    def start(self, *names: str) -> None:
        """Start processes, and wait until they answer."""
        for name in names:
            self._start(name, *self._commands()[name])
            if name in self.ports:
                wait_for(lambda name=name: _is_open(self.ports[name]), name)

    def restart(self, *names: str) -> None:
        self.stop(*names)
        self.start(*names)

    def stop(self, *names: str) -> None:
        """End processes as systemd does: SIGTERM, then SIGKILL for all processes of the unit."""
        for name in names:
            self.running[name].terminate()
        for name in names:
            with suppress(subprocess.TimeoutExpired):
                self.running[name].wait(20)
        self.kill(*names)

    def kill(self, *names: str) -> None:
        """Kill processes with their children, such as runs."""
        for name in names:
            process = self.running.pop(name)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def kill_run(self, chosen: random.Random) -> None:
        """Kill the process of one started run, if there is one."""
        if found := self.processes_of_runs():
            with suppress(ProcessLookupError):
                os.kill(chosen.choice(found), signal.SIGKILL)

    def processes_of_runs(self) -> list[int]:
        """Return the ids of the processes that hold the lock of a run."""
        locks, found = str(self.home / "runs") + "/", []
        for process in _processes_of_groups({process.pid for process in self.running.values()}):
            with suppress(OSError):
                if any(str(file.readlink()).startswith(locks) for file in Path(f"/proc/{process}/fd").iterdir()):
                    found.append(process)
        return sorted(found)

    def command(self, program: str, *arguments: str) -> str:
        """Run a command to its end, and return its output."""
        command = [Path(sys.executable).with_name(program), *arguments]
        ended = subprocess.run(
            command, cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, f"{arguments}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    def memory(self) -> dict[str, tuple[int, int]]:
        """Return megabytes of memory and open files of each process, without its runs."""
        found = {}
        for name, process in self.running.items():
            pids = sorted(_processes_of_groups({process.pid}) - set(self.processes_of_runs()))
            megabytes = sum(_resident(pid) for pid in pids) // 1_000_000
            found[name] = megabytes, sum(map(_open_files, pids))
        return found

    def resize_disk(self, left: int | None) -> None:
        """Resize the disk so that ``left`` bytes are free; None gives it its full size."""
        status = os.statvfs(self.disk)
        used = (status.f_blocks - status.f_bfree) * status.f_frsize
        _mount(self.disk, f"remount,size={DISK_MEGABYTES << 20 if left is None else used + left}")

    def _commands(self) -> Mapping[str, Sequence[str]]:
        address = ("127.0.0.1", str(self.ports["code"]))
        code = ("-m", "holderlake.pipelines.definitions", "--location-name", "holderlake")
        return {
            "service": ("holderlake", "serve", "--sample", "--port", str(self.ports["service"]), "--log", "off"),
            "code": (
                "dagster",
                "code-server",
                "start",
                "-h",
                address[0],
                "-p",
                address[1],
                "--heartbeat-ttl",
                "2592000",
                *code,
            ),
            "daemon": ("dagster-daemon", "run", "--workspace", "workspace.yaml"),
        }

    def _start(self, name: str, program: str, *arguments: str) -> None:
        environment = self.environment()
        if name == "service":
            environment["HOLDERLAKE_HOME"] = str(self.folder / "provider")
        with (self.folder / f"{name}.out").open("ab") as output:
            self.running[name] = subprocess.Popen(
                [Path(sys.executable).with_name(program), *arguments],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    # ------------------------------------------------------------------------------------------------- time

    def quiet(self, instance: DagsterInstance, tick: datetime | None = None) -> None:
        """Let the clock run until no run is open, and the schedule and the sensor ``healing`` were evaluated.

        ``tick``: time of the schedule that must have been evaluated.
        """
        since = self.clock.now()
        self.wait(instance, lambda: _last_tick(instance, "daily", 0.0) >= _unix(tick) if tick else True, f"tick {tick}")
        self.wait(instance, lambda: not instance.get_runs_count(OPEN), "runs")
        self.wait(instance, lambda: _last_tick(instance, "healing", 0.0) >= _unix(since), "healing")
        self.wait(instance, lambda: not instance.get_runs_count(OPEN), "runs")

    def wait(self, instance: DagsterInstance, is_so: Callable[[], bool], what: str) -> None:
        """Let the clock run five times as fast as in reality until a condition holds, but not while runs start."""
        patient_until = time.monotonic() + _START_SECONDS

        def step() -> bool:
            if time.monotonic() > patient_until or not instance.get_runs_count(_STARTING):
                self.clock.advance(_STEP)
            return is_so()

        wait_for(step, what)


def wait_for(is_so: Callable[[], bool], what: str, seconds: float = _PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(_PAUSE)


def _last_tick(instance: DagsterInstance, name: str, default: float) -> float:
    """Return unix seconds of the last finished tick of a schedule or sensor."""
    for state in instance.all_instigator_state():
        if state.instigator_name == name:
            ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1)
            return max((tick.timestamp for tick in ticks if tick.status.value != "STARTED"), default=default)
    return default


def _unix(when: datetime) -> float:
    return (when - datetime(1970, 1, 1)).total_seconds()


def _processes_of_groups(groups: set[int]) -> set[int]:
    found = set()
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(ProcessLookupError):
                if os.getpgid(int(path.name)) in groups:
                    found.add(int(path.name))
    return found


def _resident(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _open_files(pid: int) -> int:
    with suppress(OSError):
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return 0


_ROOT: Final = () if os.geteuid() == 0 else ("sudo", "-n")


def _mount(folder: Path, options: str) -> None:
    command = [*_ROOT, "mount", "-t", "tmpfs", "-o", f"{options},mode=0777", "tmpfs", str(folder)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    if ended.returncode:
        missing(f"a small disk in memory cannot be mounted, which takes root or sudo: {ended.stderr}")


def _is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
