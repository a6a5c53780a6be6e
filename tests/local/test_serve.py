"""``holderlake serve``: what its settings mean, and the command itself in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from holderlake.contract.prices import CREDIT
from holderlake.local.accounts import open_keys
from holderlake.local.serve import service_settings
from holderlake.service.settings import ServiceSettings
from holderlake.settings import Settings, SettingsError, load_settings
from tests.processes import holderlake

Write = Callable[[str], Path]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory, and no setting in the environment."""
    for name in [name for name in os.environ if name.startswith("HOLDERLAKE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def toml(here: Path) -> Write:
    def write(text: str) -> Path:
        path = here / "holderlake.toml"
        path.write_text(f"[service]\n{text}")
        return path

    return write


def fault() -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings()
    return str(caught.value)


# ------------------------------------------------------------------ settings


def test_without_settings_the_service_has_its_own_defaults() -> None:
    assert service_settings(Settings()) == ServiceSettings()


def test_what_is_set_reaches_the_service(toml: Write) -> None:
    toml(
        """
        public_url = "https://api.example.org/"
        workers = 4
        calls_per_minute = 600
        shared_limits = true
        trusted_proxies = ["10.0.0.0/8", "::1"]
        metrics_from = ["192.0.2.7"]
        header_limit = 4096
        body_limit = 65536
        header_seconds = 2.5
        body_seconds = 3.5
        answer_seconds = 4.5
        shutdown_seconds = 5
        cache_megabytes = 64

        [service.lifetimes]
        1d = "2m"
        1h = "10s"
        older = "1w"
        """
    )
    assert service_settings(load_settings()) == ServiceSettings(
        workers=4,
        calls_per_minute=600,
        shared_limits=True,
        trusted_proxies=("10.0.0.0/8", "::1/128"),
        metrics_from=("192.0.2.7/32",),
        header_limit=4_096,
        body_limit=65_536,
        header_seconds=2.5,
        body_seconds=3.5,
        answer_seconds=4.5,
        shutdown_seconds=5,
        cache_bytes=64 << 20,
        lifetimes=((3_600, 10), (86_400, 120), (None, 604_800)),
        public_url="https://api.example.org",
    )


def test_several_processes_share_their_limits() -> None:
    several = Settings().with_service(processes=2)
    assert service_settings(several).shared_limits


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('trusted_proxies = ["10.0.0.1/8"]', "service.trusted_proxies.0: 10.0.0.1/8 has host bits set"),
        ('metrics_from = ["office"]', "service.metrics_from.0: 'office' does not appear to be an IPv4 or IPv6 network"),
        ('public_url = "api.example.org"', "service.public_url: String should match pattern"),
        ("processes = 0", "service.processes: Input should be greater than or equal to 1"),
        ('log = "xml"', "service.log: Input should be 'json', 'text' or 'off'"),
        ('lifetimes = {older = "soon"}', "service.lifetimes: invalid duration 'soon': use for example 30s, 5m"),
        ('lifetimes = {1h = "30s"}', "service.lifetimes: the lifetime of answers about all older tokens is missing"),
        ("prot = 80", "service.prot: there is no such setting; did you mean port?"),
    ],
)
def test_a_bad_value_is_told_in_a_sentence(toml: Write, text: str, sentence: str) -> None:
    path = toml(text)
    assert fault().startswith(f"{path.name}: {sentence}")


@pytest.mark.parametrize("name", ["database", "secret"])
def test_a_secret_of_the_service_does_not_belong_in_the_file(toml: Write, name: str) -> None:
    toml(f'{name} = "postgresql://holderlake:hiddentext@db/holderlake"')
    said = fault()
    assert f"service.{name} does not belong in holderlake.toml" in said
    assert f"set HOLDERLAKE_SERVICE__{name.upper()}" in said
    assert "hiddentext" not in said


def test_the_environment_names_a_database_and_a_secret(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_SERVICE__DATABASE", "postgresql://holderlake:hiddentext@db/holderlake")
    monkeypatch.setenv("HOLDERLAKE_SERVICE__SECRET", "hiddentext" * 4)
    settings = load_settings()
    assert settings.service.database is not None
    assert settings.service.database.get_secret_value() == "postgresql://holderlake:hiddentext@db/holderlake"
    assert "hiddentext" not in f"{settings} {settings!r}"


@pytest.mark.parametrize(
    ("database", "secret", "sentence"),
    [
        ("postgresql://u:hiddentext@db/x", None, "a database needs the service's secret too"),
        ("mysql://u:hiddentext@db/x", "hiddentext" * 4, "the URL of a PostgreSQL database is expected"),
        ("postgresql://u:hiddentext@db/x", "hiddentext", "a secret needs 16 characters or more"),
    ],
)
def test_a_fault_of_the_secrets_does_not_show_them(
    here: Path, monkeypatch: pytest.MonkeyPatch, database: str, secret: str | None, sentence: str
) -> None:
    monkeypatch.setenv("HOLDERLAKE_SERVICE__DATABASE", database)
    if secret is not None:
        monkeypatch.setenv("HOLDERLAKE_SERVICE__SECRET", secret)
    said = fault()
    assert sentence in said
    assert "hiddentext" not in said


# ------------------------------------------------------------------- command


@dataclass(frozen=True)
class Command:
    """``holderlake serve`` at work."""

    running: subprocess.Popen[str]
    url: str
    log: Path

    def get(self, path: str, secret: str = "") -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers={"X-ApiKey": secret}, timeout=30, verify=False)

    def wait_until(self, true: Callable[[], bool]) -> None:
        """Returns when it is true, within a time that is ample."""
        for _ in range(600):
            assert self.running.poll() is None, self.log.read_text()
            try:
                if true():
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise TimeoutError(self.log.read_text())

    def lines(self) -> list[dict[str, Any]]:
        """What was logged, all of it JSON."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def processes(self) -> set[int]:
        """Ids of the processes that have begun to answer."""
        begun = "Application startup complete."
        return {line["process"] for line in self.lines() if line["message"] == begun}

    def stop(self) -> int:
        self.running.send_signal(signal.SIGTERM)
        return self.running.wait(60)


def environment(home: Path, **settings: object) -> dict[str, str]:
    outer = {name: value for name, value in os.environ.items() if not name.startswith("HOLDERLAKE_")}
    given = {f"HOLDERLAKE_SERVICE__{name.upper()}": str(value) for name, value in settings.items()}
    return {**outer, "HOLDERLAKE_HOME": str(home), **given}


def arguments(*given: str) -> list[str]:
    return [sys.executable, "-m", "pipelines.cli.main", "serve", *given]


@contextmanager
def serving(home: Path, folder: Path, *given: str) -> Iterator[Command]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = folder / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            arguments("--port", str(port), *given), env=environment(home), cwd=folder, stderr=errors, text=True
        ) as running,
    ):
        made = Command(running, f"http://127.0.0.1:{port}", log)
        try:
            made.wait_until(lambda: made.get("/ready").status_code == 200)
            yield made
        finally:
            running.terminate()
            running.wait(60)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    with ExitStack() as stack:
        yield lambda home, *given: stack.enter_context(serving(home, tmp_path, *given))


def test_the_command_says_where_it_serves_what(serve: Callable[..., Command], tmp_path: Path) -> None:
    command = serve(tmp_path / "home", "--log", "text")
    assert command.stop() == 0
    said = command.log.read_text()
    assert "engine holds no transfers yet; import some, or serve the sample world with --sample." in said
    assert f"Serving 0 tokens at {command.url}/v0 (docs at /docs, health at /health and /ready, metrics at" in said
    assert "/ready 200" in said


@pytest.fixture(scope="module")
def sample_home(sample_folder: Path) -> Path:
    """A home in which the sample world is made already."""
    return sample_folder.parents[1]


def test_processes_of_the_command_serve_the_same_keys_and_tokens_and_log_json(
    serve: Callable[..., Command], sample_home: Path
) -> None:
    with open_keys(Settings(home=sample_home)) as keys:
        secret = keys.create("test", 100 * CREDIT)
    command = serve(sample_home, "--sample", "--processes", "2")
    command.wait_until(lambda: len(command.processes()) == 2)
    assert {command.get("/v0/chains", secret).status_code for _ in range(20)} == {200}
    assert command.stop() == 0
    assert command.lines()[0]["message"].startswith("Serving 22 tokens at")
    asked = [line for line in command.lines() if line.get("route") == "/v0/chains"]
    assert [(line["status"], line["key"]) for line in asked] == [(200, secret.split("_")[1])] * 20
    assert {line["process"] for line in asked} == command.processes()


@pytest.mark.parametrize(
    ("given", "code", "sentence"),
    [
        (["--port", "70000"], 2, "Input should be less than or equal to 65535"),
        (["--processes", "0"], 2, "Input should be greater than or equal to 1"),
        (["--host", "203.0.113.1"], 1, "holderlake: can't listen on 203.0.113.1, port 8014: this machine has no such"),
    ],
)
def test_a_bad_option_is_told_in_a_sentence(tmp_path: Path, given: list[str], code: int, sentence: str) -> None:
    ended = holderlake("serve", *given, env=environment(tmp_path))
    assert ended.returncode == code
    assert sentence in " ".join(ended.stderr.replace("│", "").split())
    assert "Traceback" not in ended.stderr
