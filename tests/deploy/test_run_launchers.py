"""Runs in containers: what Dagster's launchers ask of Docker and Kubernetes with the settings of deploy/dagster.

Neither runs on a test machine, so a small HTTP server takes the requests.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy.kubernetes import faults_of
from tests.helpers.real import missing
from tests.helpers.servers import LoopbackServer

pytestmark = pytest.mark.integration

SETTINGS: Final = Path(__file__).parents[2] / "deploy" / "dagster"
VARIANTS: Final = ("docker", "kubernetes")
IMAGE: Final = "holderlake:0.3.0"
DEFINITIONS: Final = """
import dagster as dg

@dg.op
def nothing():
    pass

@dg.job
def small():
    nothing()

defs = dg.Definitions(jobs=[small])
"""
ENVIRONMENT: Final = {
    "DAGSTER_HOME": "/opt/dagster/docker",
    "DAGSTER_POSTGRES_HOST": "postgres",
    "DAGSTER_POSTGRES_PORT": "5432",
    "DAGSTER_POSTGRES_USER": "dagster",
    "DAGSTER_POSTGRES_PASSWORD": "secret",
    "DAGSTER_POSTGRES_DB": "dagster",
    "HOLDERLAKE_HOME": "/var/lib/holderlake",
    "HOLDERLAKE_CONFIG": "/etc/holderlake/holderlake.toml",
    "HOLDERLAKE_API_KEY_FILE": "/run/secrets/api-key",
}


class Requests(LoopbackServer):
    """Accepts every request, and keeps the bodies of POST requests by path."""

    def __init__(self) -> None:
        self.bodies: dict[str, Any] = {}
        super().__init__(_Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        assert isinstance(self.server, Requests)
        self.server.bodies[self.path.partition("?")[0]] = json.loads(body or b"null")
        self._answer(201, {"Id": "c0ffee", "kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "run"}})

    def do_GET(self) -> None:
        self._answer(200, {"Id": "c0ffee", "ApiVersion": "1.48", "MinAPIVersion": "1.24", "State": {}})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def requests() -> Iterator[Requests]:
    with Requests() as server:
        yield server


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_adds_only_its_run_launcher(variant: str) -> None:
    settings = yaml.safe_load((SETTINGS / variant / "dagster.yaml").read_text())
    settings.pop("run_launcher")
    assert settings == yaml.safe_load((SETTINGS / "local" / "dagster.yaml").read_text())


def launched(folder: Path, variant: str, requests: Requests, **launcher: Any) -> dict[str, Any]:
    """Launch a run with the launcher of a variant, and return the requests by path."""
    if importlib.util.find_spec(f"dagster_{'k8s' if variant == 'kubernetes' else 'docker'}") is None:
        missing("Dagster's launchers are not installed: run 'make extras'")
    settings = yaml.safe_load((SETTINGS / variant / "dagster.yaml").read_text())
    settings["run_launcher"]["config"] |= launcher
    only = {name: settings[name] for name in ("run_launcher", "telemetry", "nux")}
    at_once = {"run_coordinator": {"module": "dagster._core.run_coordinator", "class": "DefaultRunCoordinator"}}
    (folder / "dagster.yaml").write_text(yaml.safe_dump(only | at_once))
    (folder / "small.py").write_text(DEFINITIONS)
    own = {"DAGSTER_HOME": str(folder), "DOCKER_HOST": f"tcp://127.0.0.1:{requests.server_port}"}
    ended = subprocess.run(
        [sys.executable, "-m", "dagster", "job", "launch", "-f", "small.py", "-j", "small"],
        cwd=folder,
        env=os.environ | ENVIRONMENT | own | {"HOLDERLAKE_IMAGE": IMAGE},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return requests.bodies


@pytest.mark.long
def test_a_run_in_docker_has_home_settings_and_key(tmp_path: Path, requests: Requests) -> None:
    asked = launched(tmp_path, "docker", requests)
    (create,) = [body for path, body in asked.items() if path.endswith("/containers/create")]
    environment = dict(text.split("=", 1) for text in create["Env"])
    assert {name: environment[name] for name in ENVIRONMENT} == ENVIRONMENT | {"DAGSTER_HOME": str(tmp_path)}
    assert create["Image"] == IMAGE
    assert "holderlake_home:/var/lib/holderlake" in create["HostConfig"]["Binds"]
    assert create["HostConfig"]["CapDrop"] == ["ALL"]
    assert any(path.endswith("/start") for path in asked)


@pytest.mark.long
def test_a_run_in_kubernetes_is_a_valid_job_without_rights(tmp_path: Path, requests: Requests) -> None:
    cluster = {"server": f"http://127.0.0.1:{requests.server_port}"}
    configuration = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "tests",
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [{"name": "tests", "user": {}}],
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(configuration))
    asked = launched(
        tmp_path, "kubernetes", requests, load_incluster_config=False, kubeconfig_file=str(tmp_path / "kubeconfig")
    )
    job = asked["/apis/batch/v1/namespaces/holderlake/jobs"]
    assert faults_of([job]) == []
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {"/etc/holderlake", "/var/lib/holderlake"}
    assert {"name": "DAGSTER_HOME", "value": "/opt/dagster/kubernetes"} in container["env"]
    assert container["envFrom"] == [
        {"configMapRef": {"name": "holderlake-environment"}},
        {"secretRef": {"name": "holderlake-secrets"}},
    ]
    assert (pod["automountServiceAccountToken"], pod["securityContext"]["runAsNonRoot"]) == (False, True)
    assert container["image"] == IMAGE
