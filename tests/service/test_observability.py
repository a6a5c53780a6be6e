"""Request ids, log lines without secrets, metrics, health and readiness."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI, Request

from holderlake.core.contract.prices import CREDIT
from holderlake.core.contract.requests import HoldersRequest
from holderlake.service.api.routes.health import Readiness
from holderlake.service.app import create_app
from holderlake.service.billing.keys import KeyStore
from holderlake.service.observability import Metrics, observation
from holderlake.service.observability.log import ServiceJsonLines, TextLines
from holderlake.service.run import BackgroundApp, BackgroundService
from holderlake.service.settings import ServiceSettings
from tests.service.conftest import World, patient

ESCAPES = '\x1b[2K\r\n{"level": "info"}"\'\u2028\u202e\x9b'


@dataclass(frozen=True)
class Watched:
    """A service, its client, and the log of the test."""

    app: FastAPI
    http: httpx.Client
    keys: KeyStore
    log: io.StringIO

    def lines(self, logger: str = "holderlake.service.requests") -> list[dict[str, Any]]:
        """Return the lines of a logger; a request's line is written just after its answer."""
        found = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in found if line["logger"] == logger]

    def line(self, answer: httpx.Response) -> dict[str, Any]:
        """Return the log line of an answer."""
        for _ in range(30_000):
            of_it = [one for one in self.lines() if one["request_id"] == answer.headers["X-Request-Id"]]
            if of_it:
                assert len(of_it) == 1
                return of_it[0]
            time.sleep(0.01)
        raise AssertionError("the request was not logged")

    def metric(self, name: str) -> dict[str, float]:
        """Return the samples of a metric by their labels as text."""
        samples = [line.rpartition(" ") for line in self.http.get("/metrics").text.splitlines()]
        return {
            labels.removeprefix(name): float(value) for labels, _, value in samples if labels.partition("{")[0] == name
        }


def observed_app(world: World, keys: KeyStore, settings: ServiceSettings) -> FastAPI:
    """Return the service with test routes: one logs, one fails unexpectedly."""
    app = create_app(world.store, keys, settings)

    @app.get("/test/logs/{text}")
    def logs(text: str) -> None:
        logging.getLogger("holderlake.service.test").warning("output %s", text)

    @app.get("/test/fails/{text}")
    async def fails(request: Request, text: str) -> None:
        try:
            raise KeyError(text)
        except KeyError as error:
            raise ValueError(f"{request.url} {request.headers}") from error

    @app.get("/test/notes")
    async def notes() -> None:
        observation().key, observation().account, observation().cost = "0badcafe", 7, 150
        observation().cached = True

    return app


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The service's JSON log during a test, of all loggers."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ServiceJsonLines())
    service = logging.getLogger("holderlake")
    service.addHandler(handler)
    service.setLevel(logging.DEBUG)
    yield stream
    service.setLevel(logging.NOTSET)
    service.removeHandler(handler)


@pytest.fixture
def log_lines(log: io.StringIO) -> Iterator[io.StringIO]:
    """The same log, including request lines."""
    requests = logging.getLogger("holderlake.service.requests")
    silent = requests.level
    requests.setLevel(logging.INFO)
    yield log
    requests.setLevel(silent)


@pytest.fixture(scope="module")
def running(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FastAPI, httpx.Client, KeyStore]]:
    with (
        KeyStore(tmp_path_factory.mktemp("observed") / "keys.sqlite") as keys,
        BackgroundApp(app := observed_app(world, keys, patient())) as service,
        httpx.Client(base_url=service.base_url, timeout=None, verify=False) as client,
    ):
        yield app, client, keys


@pytest.fixture
def watched(running: tuple[FastAPI, httpx.Client, KeyStore], log_lines: io.StringIO) -> Watched:
    return Watched(*running, log_lines)


Start = Callable[[ServiceSettings], Watched]


@pytest.fixture
def start_watched(world: World, tmp_path: Path, log_lines: io.StringIO) -> Iterator[Start]:
    """Start a service with the test's settings."""
    with ExitStack() as stack:

        def start(settings: ServiceSettings) -> Watched:
            keys = stack.enter_context(KeyStore(tmp_path / "keys.sqlite"))
            app = observed_app(world, keys, patient(settings))
            service = stack.enter_context(BackgroundApp(app, settings))
            client = stack.enter_context(httpx.Client(base_url=service.base_url, timeout=None, verify=False))
            return Watched(app, client, keys, log_lines)

        yield start


# ---------------------------------------------------------------------- ids


def test_each_request_has_its_own_id(watched: Watched) -> None:
    ids = {watched.http.get("/health").headers["X-Request-Id"] for _ in range(5)}
    assert len(ids) == 5
    assert all(len(one) == 32 for one in ids)


def test_request_id_of_the_caller_is_kept(watched: Watched) -> None:
    answer = watched.http.get("/v0/chains", headers={"X-Request-Id": "trace-1.2_3"})
    assert answer.headers.get_list("X-Request-Id") == ["trace-1.2_3"]
    assert watched.line(answer)["code"] == "missing_key"


@pytest.mark.parametrize(
    "name", ["", "x" * 65, "two words", 'say"what', "new\tline", "ümlaut".encode(), "hl_0badcafe_" + "5" * 48]
)
def test_malformed_request_id_is_replaced(watched: Watched, name: str | bytes) -> None:
    answer = watched.http.get("/health", headers={"X-Request-Id": name})
    assert len(answer.headers["X-Request-Id"]) == 32
    assert answer.headers["X-Request-Id"] != name


def test_log_lines_within_a_request_have_its_id(watched: Watched) -> None:
    answer = watched.http.get("/test/logs/hello")
    assert [(line["message"], line["request_id"]) for line in watched.lines("holderlake.service.test")] == [
        ("output hello", answer.headers["X-Request-Id"])
    ]


# --------------------------------------------------------------------- lines


def test_request_is_logged_in_one_line(watched: Watched, world: World) -> None:
    secret = watched.keys.create("test", 100 * CREDIT)
    answer = watched.http.get(f"/v0/tokens/holders/eth/{world.token}?limit=80", headers={"X-ApiKey": secret})
    assert answer.status_code == 200
    line = watched.line(answer)
    assert line["time"].endswith("Z")
    assert line["ms"] > 0
    assert {name: line[name] for name in line if name not in ("time", "ms", "process", "request_id", "logger")} == {
        "level": "info",
        "method": "GET",
        "route": "/v0/tokens/holders/{chain}/{token_address}",
        "status": 200,
        "code": None,
        "bytes": len(answer.content),
        "client": "127.0.0.1",
        "key": secret.split("_")[1],
        "account": line["account"],
        "cost": HoldersRequest(chain="eth", token_address=world.token).cost,
        "cached": False,
        "failure": None,
        "message": "request",
    }


def test_log_line_has_key_cost_and_cache_status(watched: Watched) -> None:
    line = watched.line(watched.http.get("/test/notes"))
    assert (line["key"], line["account"], line["cost"], line["cached"]) == ("0badcafe", 7, 150, True)


@pytest.mark.parametrize(
    ("method", "path", "route", "status", "code"),
    [
        ("GET", "/v0/chains", "/v0/chains", 401, "missing_key"),
        ("GET", "/maps/eth/x", "/maps/{rest:path}", 410, "removed"),
        ("GET", "/nothing/here", "unmatched", 404, "not_found"),
        ("DELETE", "/v0/chains", "/v0/chains", 405, "method_not_allowed"),
        ("PROPFIND", "/v0/chains", "/v0/chains", 405, "method_not_allowed"),
    ],
)
def test_refused_request_is_logged_with_route_and_code(
    watched: Watched, method: str, path: str, route: str, status: int, code: str
) -> None:
    line = watched.line(watched.http.request(method, path))
    assert (line["route"], line["status"], line["code"]) == (route, status, code)
    assert line["method"] == ("other" if method == "PROPFIND" else method)


def test_log_line_behind_a_proxy_has_the_client(start_watched: Start) -> None:
    watched = start_watched(ServiceSettings(trusted_proxies=("127.0.0.0/8",)))
    line = watched.line(watched.http.get("/v0/chains", headers={"X-Forwarded-For": "203.0.113.9"}))
    assert (line["client"], line["route"]) == ("203.0.113.9", "/v0/chains")


def test_hostile_text_cannot_forge_a_log_line(watched: Watched) -> None:
    connection = http.client.HTTPConnection(urlsplit(str(watched.http.base_url)).netloc)
    connection.putrequest("GET", "/test/logs/%1b%5b2K%0d%0a%7b%22level%22%3a%20%22info%22%7d%22", skip_host=True)
    connection.putheader("Host", "x")
    connection.putheader("X-Any", '"}\t{"level": "\x9b2K'.encode("latin-1"))
    connection.endheaders()
    assert connection.getresponse().status == 200
    connection.close()
    written = watched.log.getvalue()
    assert written.isascii()
    assert "\x1b" not in written
    assert all(set(json.loads(line)) >= {"time", "level", "request_id"} for line in written.splitlines())
    assert watched.lines("holderlake.service.test")[0]["message"] == 'output \x1b[2K\r\n{"level": "info"}"'


def test_unexpected_failure_is_answered_500(watched: Watched) -> None:
    answer = watched.http.get("/test/fails/x")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    line = watched.line(answer)
    assert (line["level"], line["failure"], line["code"]) == ("error", "ValueError", "internal_error")


def test_traceback_has_no_messages(watched: Watched) -> None:
    answer = watched.http.get("/test/fails/hiddentext")
    reported = watched.lines("holderlake.service.observability.middleware")[-1]
    assert reported["request_id"] == answer.headers["X-Request-Id"]
    assert "KeyError" in reported["exc_info"]
    assert reported["exc_info"].endswith("ValueError")
    assert "in fails" in reported["exc_info"]
    assert "hiddentext" not in reported["exc_info"]


def test_text_line_cannot_be_forged() -> None:
    record = logging.LogRecord("service", logging.INFO, "", 0, "output %s", (ESCAPES,), None)
    line = TextLines().format(record)
    assert line.isprintable()
    assert line.endswith(r"""service: output \x1b[2K\r\n{"level": "info"}"'\u2028\u202e\x9b""")


def test_embedded_service_logs_no_requests(world: World, tmp_path: Path, log: io.StringIO) -> None:
    with KeyStore(tmp_path / "keys.sqlite") as keys, BackgroundService(world.store, keys) as service:
        answer = httpx.get(f"{service.base_url}/v0/chains", timeout=None, verify=False)
    assert answer.headers["X-Request-Id"] not in log.getvalue()


# ------------------------------------------------------------------- metrics


def test_requests_are_counted_by_route_method_status_and_code(start_watched: Start) -> None:
    watched = start_watched(ServiceSettings())
    for path in ("/v0/chains", "/v0/chains", "/health", "/nothing/1", "/nothing/2"):
        watched.http.get(path)
    watched.http.request("PROPFIND", "/nothing/3")
    assert watched.metric("holderlake_requests_total") == {
        '{code="missing_key",method="GET",route="/v0/chains",status="401"}': 2,
        '{code="",method="GET",route="/health",status="200"}': 1,
        '{code="not_found",method="GET",route="unmatched",status="404"}': 2,
        '{code="not_found",method="other",route="unmatched",status="404"}': 1,
    }
    assert watched.metric("holderlake_request_seconds_count")['{route="/v0/chains"}'] == 2


def test_metrics_request_is_in_progress(watched: Watched) -> None:
    assert watched.metric("holderlake_requests_in_progress") == {"": 1}


def test_metrics_show_reported_and_watched_values(start_watched: Start) -> None:
    watched = start_watched(ServiceSettings())
    metrics: Metrics = watched.app.state.backend.metrics
    seen = {"waiting": 3.0}
    metrics.watch("test_waiting", lambda: seen["waiting"], "Waiting")
    metrics.charged("holders", 150)
    metrics.charged("holders", 50)
    metrics.cache("hit")
    assert watched.metric("holderlake_test_waiting") == {"": 3}
    seen["waiting"] = 1.0
    assert watched.metric("holderlake_test_waiting") == {"": 1}
    assert watched.metric("holderlake_charged_hundredths_total") == {'{endpoint="holders"}': 200}
    assert watched.metric("holderlake_cache_lookups_total")['{outcome="hit"}'] == 1


def test_services_in_one_process_have_separate_metrics() -> None:
    first, second = Metrics(), Metrics()
    first.charged("holders", 150)
    assert b'endpoint="holders"' in first.text()()
    assert b'endpoint="holders"' not in second.text()()


def test_metrics_are_hidden_from_other_networks(start_watched: Start) -> None:
    watched = start_watched(ServiceSettings(metrics_from=("10.0.0.0/8",)))
    answer, unknown = watched.http.get("/metrics"), watched.http.get("/nothing")
    assert (answer.status_code, answer.content) == (404, unknown.content)


@pytest.mark.parametrize(
    "header", [{"X-Forwarded-For": "203.0.113.9"}, {"X-Real-IP": "203.0.113.9"}, {"Forwarded": "for=127.0.0.1"}]
)
def test_local_proxy_does_not_expose_the_metrics(watched: Watched, header: Any) -> None:
    assert watched.http.get("/metrics", headers=header).status_code == 404
    assert watched.http.get("/metrics", headers={"X-Forwarded-For": "127.0.0.1"}).status_code == 200


# -------------------------------------------------------------------- health


def test_health_and_readiness_need_no_key(watched: Watched) -> None:
    assert watched.http.get("/health").json() == {"status": "ok"}
    assert watched.http.get("/ready").json() == {"status": "ready"}


def test_service_without_key_database_is_not_ready(start_watched: Start, tmp_path: Path) -> None:
    watched = start_watched(ServiceSettings())
    watched.keys.close()
    for file in tmp_path.glob("keys.sqlite*"):
        file.write_bytes(b"no database" * 1_000)
    answer = watched.http.get("/ready")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json() == {"detail": "Not ready: keys; see the service's log", "code": "unavailable"}
    assert watched.http.get("/health").status_code == 200


def test_stopping_service_is_not_ready(start_watched: Start) -> None:
    watched = start_watched(ServiceSettings())
    watched.app.state.stopping = True
    answer = watched.http.get("/ready")
    assert (answer.status_code, answer.json()["detail"]) == (503, "Not ready: shutting down; see the service's log")


def test_concurrent_readiness_requests_share_one_check() -> None:
    looks: list[int] = []

    async def ask() -> None:
        readiness = Readiness({"store": lambda: looks.append(1)}, every=60)
        answers = await asyncio.gather(*(readiness.missing() for _ in range(50)))
        assert answers == [[]] * 50

    asyncio.run(ask())
    assert len(looks) == 1


@pytest.mark.integration
def test_hanging_check_fails_and_is_not_restarted() -> None:
    release, looks = threading.Event(), []

    def hang() -> None:
        looks.append(1)
        release.wait(30)

    async def ask() -> None:
        readiness = Readiness({"keys": hang, "store": lambda: None}, every=0, timeout=0.5)
        assert await readiness.missing() == ["keys"]
        assert await readiness.missing() == ["keys"]

    asyncio.run(ask())
    release.set()
    assert len(looks) == 1
