"""The compose files, the image and the systemd units of deploy/."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
UNITS: Final = sorted((DEPLOY / "systemd").glob("*.service"))
PROGRAMS: Final = {"holderlake", "dagster", "dagster-webserver", "dagster-daemon"}


def compose(name: str = "compose.yaml") -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / name).read_text()))


def commands() -> dict[str, str]:
    """Return the commands of all containers and units, by name."""
    found = {name: one["command"] for name, one in compose()["services"].items() if "command" in one}
    for unit in UNITS:
        (command,) = re.findall(r"^ExecStart=(.+)$", unit.read_text(), re.MULTILINE)
        found[unit.stem] = command.removeprefix("/opt/holderlake/bin/")
    return found


def test_every_command_is_a_program_of_the_environment() -> None:
    assert {command.split()[0] for command in commands().values()} == PROGRAMS


@pytest.mark.parametrize("part", ["code", "daemon", "webserver", "metrics"])
def test_container_and_unit_run_the_same_command(part: str) -> None:
    def comparable(command: str) -> str:
        command = command.replace("127.0.0.1", "0.0.0.0").replace("/etc/holderlake/workspace", "/opt/dagster/workspace")
        return " ".join(command.split())

    assert comparable(commands()[part]) == comparable(commands()[f"holderlake-{part}"])


def test_a_jump_of_the_clock_does_not_end_the_definitions() -> None:
    (kubernetes,) = re.findall(r"command: (.*code-server.*)", (DEPLOY / "kubernetes" / "code.yaml").read_text())
    for command in (commands()["code"], commands()["holderlake-code"], re.sub(r'[\[\]",]', "", kubernetes)):
        assert "--heartbeat-ttl 2592000" in command  # 30 seconds by default


def test_no_file_of_deploy_has_a_secret() -> None:
    for service in compose()["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|DATABASE", name) and not name.endswith("_DB"):
                assert "${" in value, name
    for path in (DEPLOY / "environment.example", DEPLOY / "systemd" / "environment.example"):
        assert re.findall(r"^\w*(?:PASSWORD|SECRET)\w*=(.*)$", path.read_text(), re.MULTILINE) in ([""], ["", ""])


def test_pages_without_a_login_are_published_to_this_host_only() -> None:
    ports = {name: one.get("ports", []) for name, one in compose()["services"].items()}
    open_to_all = {name for name, given in ports.items() for port in given if not port.startswith("127.0.0.1:")}
    assert open_to_all == {"service"}  # by the variable SERVICE_ADDRESS
    assert ports["service"] == ["${SERVICE_ADDRESS:-127.0.0.1}:8014:8014"]


def test_runs_in_containers_use_the_volumes_of_compose() -> None:
    launcher = yaml.safe_load((DEPLOY / "dagster" / "docker" / "dagster.yaml").read_text())["run_launcher"]["config"]
    volumes = {one["name"] for one in compose()["volumes"].values()}
    used = {mount.split(":")[0] for mount in launcher["container_kwargs"]["volumes"] if not mount.startswith("/")}
    assert used <= volumes
    assert launcher["network"] == compose()["networks"]["holderlake"]["name"]
    assert set(launcher["env_vars"]) <= set(compose()["services"]["daemon"]["environment"])


def test_the_image_is_of_this_version_and_of_the_locks() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    texts = [(DEPLOY / name).read_text() for name in ("Dockerfile", "compose.yaml")]
    assert {match for text in texts for match in re.findall(r"holderlake:(\d[\d.]*\d)", text)} == {version}
    assert "--require-hashes" in texts[0]
    assert re.search(r"^USER 10001:10001$", texts[0], re.MULTILINE)


def test_docker_accepts_the_compose_files() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], check=False, capture_output=True).returncode:
        pytest.skip("docker compose is not installed")
    files = ["--file", "compose.yaml", "--file", "compose.docker-runs.yaml"]
    environment = {"POSTGRES_PASSWORD": "a", "SERVICE_SECRET": "b", "DOCKER_GROUP": "999", "PATH": "/usr/bin:/bin"}
    command = [docker, "compose", *files, "config", "--quiet"]
    ended = subprocess.run(command, cwd=DEPLOY, env=environment, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    for unit in UNITS:
        text = unit.read_text()
        (tmp_path / unit.name).write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))
    ended = subprocess.run(
        [program, "verify", *(str(tmp_path / unit.name) for unit in UNITS)], check=False, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_confined(unit: Path) -> None:
    lines = unit.read_text().splitlines()
    for line in (
        "User=holderlake",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "CapabilityBoundingSet=",
        "Restart=always",
    ):
        assert line in lines
