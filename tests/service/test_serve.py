"""``holderlake serve``: its settings, and the command in its own processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from holderlake.core.contract.prices import CREDIT
from holderlake.core.settings import Settings, SettingsError, load_settings
from holderlake.service.accounts import open_keys, wait_for_keys
from tests.helpers.commands import holderlake
from tests.helpers.postgres import PostgresServer
from tests.helpers.processes import PATIENCE, wait_until

Write = Callable[[str], Path]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory and an environment without settings."""
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


@pytest.mark.long
def test_a_start_waits_for_a_database_of_keys_that_is_down(tmp_path: Path, own_postgres: PostgresServer) -> None:
    section = {"database": own_postgres.url(), "secret": "s" * 32}
    own_postgres.stop()
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        own_postgres.start()

    with wait_for_keys(Settings(home=tmp_path, service=section), say) as keys:
        assert keys.usage() is not None
    assert said == [
        "PostgreSQL cannot be reached (service.database, HOLDERLAKE_SERVICE__DATABASE); trying again for 60 s"
    ]


# ------------------------------------------------------------------ settings


def test_networks_urls_and_lifetimes_are_normalised(toml: Write) -> None:
    toml(
        """
        public_url = "https://api.example.org/"
        trusted_proxies = ["10.0.0.0/8", "::1"]
        cache_megabytes = 64

        [service.lifetimes]
        1d = "2m"
        1h = "10s"
        older = "1w"
        """
    )
    service = load_settings().service
    assert service.public_url == "https://api.example.org"
    assert service.trusted_proxies == ["10.0.0.0/8", "::1/128"]
    assert service.cache_bytes == 64 << 20
    assert service.lifetime_table == ((3_600, 10), (86_400, 120), (None, 604_800))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('trusted_proxies = ["10.0.0.1/8"]', "service.trusted_proxies.0: 10.0.0.1/8 has host bits set"),
        ('metrics_from = ["office"]', "service.metrics_from.0: 'office' does not appear to be an IPv4 or IPv6 network"),
        ('public_url = "api.example.org"', "service.public_url: the value has another form than expected"),
        ("processes = 0", "service.processes: Input should be greater than or equal to 1"),
        ('log = "xml"', "service.log: Input should be 'json', 'text' or 'off'"),
        ('lifetimes = {older = "soon"}', "service.lifetimes: invalid duration 'soon': use for example 30s, 5m"),
        (
            'lifetimes = {1h = "30s"}',
            "service.lifetimes: the cache lifetime for tokens older than those listed is missing",
        ),
        ("prot = 80", "service.prot: there is no such setting; did you mean port?"),
    ],
)
def test_invalid_setting_is_reported_in_a_sentence(toml: Write, text: str, sentence: str) -> None:
    path = toml(text)
    assert fault().startswith(f"{path.name}: {sentence}")


@pytest.mark.parametrize("name", ["database", "secret"])
def test_secrets_in_the_settings_file_are_refused(toml: Write, name: str) -> None:
    toml(f'{name} = "postgresql://holderlake:hiddentext@db/holderlake"')
    output = fault()
    assert f"service.{name} does not belong in holderlake.toml" in output
    assert f"set HOLDERLAKE_SERVICE__{name.upper()}" in output
    assert "hiddentext" not in output


def test_environment_sets_database_and_secret(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_errors_about_secrets_do_not_show_them(
    here: Path, monkeypatch: pytest.MonkeyPatch, database: str, secret: str | None, sentence: str
) -> None:
    monkeypatch.setenv("HOLDERLAKE_SERVICE__DATABASE", database)
    if secret is not None:
        monkeypatch.setenv("HOLDERLAKE_SERVICE__SECRET", secret)
    output = fault()
    assert sentence in output
    assert "hiddentext" not in output


# ------------------------------------------------------------------- command


@dataclass(frozen=True)
class Command:
    """A running ``holderlake serve``."""

    running: subprocess.Popen[str]
    url: str
    log: Path

    def get(self, path: str, secret: str = "") -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers={"X-ApiKey": secret}, timeout=None, verify=False)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return when the condition is true; fail if the process ends."""
        wait_until(condition, self.running, self.log.read_text)

    def lines(self) -> list[dict[str, Any]]:
        """Return the log's lines, all of them JSON."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def processes(self) -> set[int]:
        """Return the ids of the processes that have started."""
        started = "Application startup complete."
        return {line["process"] for line in self.lines() if line["message"] == started}

    def stop(self) -> int:
        self.running.send_signal(signal.SIGTERM)
        return self.running.wait(PATIENCE)


def environment(home: Path, **settings: object) -> dict[str, str]:
    outer = {name: value for name, value in os.environ.items() if not name.startswith("HOLDERLAKE_")}
    options = {f"HOLDERLAKE_SERVICE__{name.upper()}": str(value) for name, value in settings.items()}
    return {**outer, "HOLDERLAKE_HOME": str(home), **options}


def arguments(*options: str) -> list[str]:
    return [sys.executable, "-m", "holderlake.cli.main", "serve", *options]


@contextmanager
def serving(home: Path, folder: Path, *options: str) -> Iterator[Command]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = folder / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            arguments("--port", str(port), *options), env=environment(home), cwd=folder, stderr=errors, text=True
        ) as running,
    ):
        command = Command(running, f"http://127.0.0.1:{port}", log)
        try:
            command.wait_until(lambda: command.get("/ready").status_code == 200)
            yield command
        finally:
            running.terminate()
            running.wait(PATIENCE)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    with ExitStack() as stack:
        yield lambda home, *options: stack.enter_context(serving(home, tmp_path, *options))


@pytest.mark.long
def test_serve_prints_its_address_and_warns_about_an_empty_store(serve: Callable[..., Command], tmp_path: Path) -> None:
    command = serve(tmp_path / "home", "--log", "text")
    assert command.stop() == 0
    output = command.log.read_text()
    assert "engine holds no transfers yet; import some, or serve the sample world with --sample." in output
    assert f"Serving 0 tokens at {command.url}/v0 (docs at /docs, health at /health and /ready, metrics at" in output
    assert "/ready 200" in output


@pytest.fixture(scope="module")
def sample_home(sample_folder: Path) -> Path:
    """A home that contains the sample world."""
    return sample_folder.parents[1]


@pytest.mark.long
def test_two_processes_serve_the_same_keys_and_log_json(serve: Callable[..., Command], sample_home: Path) -> None:
    with open_keys(Settings(home=sample_home)) as keys:
        secret = keys.create("test", 100 * CREDIT)
    command = serve(sample_home, "--sample", "--processes", "2")
    command.wait_until(lambda: len(command.processes()) == 2)

    def served() -> set[int]:
        assert command.get("/v0/chains", secret).status_code == 200
        return {line["process"] for line in command.lines() if line.get("route") == "/v0/chains"}

    command.wait_until(lambda: served() == command.processes())
    assert command.stop() == 0
    assert command.lines()[0]["message"].startswith("Serving 22 tokens at")
    requests = [line for line in command.lines() if line.get("route") == "/v0/chains"]
    assert {(line["status"], line["key"]) for line in requests} == {(200, secret.split("_")[1])}


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--port", "70000"], 2, "Input should be less than or equal to 65535"),
        (["--processes", "0"], 2, "Input should be greater than or equal to 1"),
        (["--host", "203.0.113.1"], 1, "holderlake: can't listen on 203.0.113.1, port 8014: this machine has no such"),
    ],
)
def test_invalid_option_is_reported_in_a_sentence(tmp_path: Path, options: list[str], code: int, sentence: str) -> None:
    ended = holderlake("serve", *options, env=environment(tmp_path))
    assert ended.returncode == code
    assert sentence in " ".join(ended.stderr.replace("│", "").split())
    assert "Traceback" not in ended.stderr
