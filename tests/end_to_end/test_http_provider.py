"""Commands against a provider over HTTP: what they print, and how they end."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from holderlake.core.lake.lake import Lake
from holderlake.core.provider.ledger.ledger import CreditLedger
from tests.conftest import RunningService
from tests.helpers.commands import holderlake
from tests.helpers.misbehaving import Received, Step, answer, endless, error, half, scripted, token_map
from tests.helpers.processes import HOLDERLAKE, Ended, run

pytestmark = pytest.mark.long

TOKEN = "native"
MAY = datetime(2026, 5, 1)
Fate = Callable[[Received], Step | None]


@pytest.fixture(autouse=True)
def data(empty_home: Path, tmp_path: Path) -> Path:
    """The home of the commands, with an empty history and warehouse: a command takes a second to create them."""
    return shutil.copytree(empty_home, tmp_path / "data")


def environment(home: Path, address: str, key: str, **settings: str) -> dict[str, str]:
    """Return the environment of a command for the provider at this address, and write its settings file."""
    home.mkdir(exist_ok=True)
    (home / "holderlake.toml").write_text(f'[watchlist]\neth = ["{TOKEN}"]\n')
    own = {
        "HOLDERLAKE_CONFIG": str(home / "holderlake.toml"),
        "HOLDERLAKE_HOME": str(home / "data"),
        "HOLDERLAKE_PROVIDER__URL": address,
        "HOLDERLAKE_API_KEY": key,
        **settings,
    }
    return {**os.environ, **own}


def command(home: Path, address: str, key: str, *arguments: str, **settings: str) -> Ended:
    """Run a command for the provider at this address."""
    return holderlake(*arguments, env=environment(home, address, key, **settings))


class Gateway:
    """A gateway in front of the sample service: ``fate`` may give an answer of its own to a request."""

    def __init__(self, service: RunningService, fate: Fate) -> None:
        self._real = urlsplit(service.base_url).netloc
        self._fate = fate
        self._turn = threading.Lock()
        self.paths: Counter[str] = Counter()
        """Requests by what they ask for."""

    @contextmanager
    def serving(self) -> Iterator[Gateway]:
        """Serve in a thread of its own until the block ends."""
        with scripted(choose=self._step) as self.server:
            yield self

    def _step(self, request: Received) -> Step:
        with self._turn:  # fates such as ``once`` have one request at a time
            self.paths["/".join(urlsplit(request.target).path.split("/")[2:4])] += 1
            step = self._fate(request)
        return step or self._forwarded(request)

    def _forwarded(self, request: Received) -> Step:
        connection = http.client.HTTPConnection(self._real)
        headers = {name: value for name, value in request.headers.items() if name not in ("host", "accept-encoding")}
        connection.request(request.method, request.target, request.body or None, headers)
        real = connection.getresponse()
        body = real.read()
        connection.close()
        return answer(body, real.status, {"Content-Type": "application/json"})


def about(part: str, step: Step) -> Fate:
    """The same answer to all requests whose path holds the text."""
    return lambda request: step if part in request.target else None


def once(part: str, *steps: Step) -> Fate:
    """These answers, one each, to the first requests whose path holds the text."""
    left = list(steps)
    return lambda request: left.pop(0) if part in request.target and left else None


def complaints(done: Ended) -> list[str]:
    """Lines on standard error, without the results of asset checks."""
    return [line for line in done.stderr.splitlines() if not line.startswith("Check ")]


def test_a_command_over_http_leaves_standard_error_empty(sample_service: RunningService, tmp_path: Path) -> None:
    own = environment(tmp_path, sample_service.base_url, sample_service.secret)
    done = run(HOLDERLAKE, "ingest", "--at", "2026-05-01", env=own)
    assert (done.returncode, complaints(done)) == (0, [])


FIREWALL = answer(b"<html><head><title>Access denied</title></head></html>", 403, {"Content-Type": "text/html"})


@pytest.mark.parametrize(
    ("part", "refusal"),
    [
        ("/v0/chains", error(403, detail="Forbidden")),
        ("/v0/tokens/map", FIREWALL),
        ("/v0/tokens/metadata", FIREWALL),
        ("/v0/tokens/holders", error(403, detail="Forbidden")),
    ],
    ids=["chains-forbidden", "map-firewall", "metadata-firewall", "holders-forbidden"],
)
def test_a_403_fails_the_run_and_lands_in_failures(
    sample_service: RunningService, tmp_path: Path, part: str, refusal: Step
) -> None:
    with Gateway(sample_service, about(part, refusal)).serving() as gateway:
        done = command(tmp_path, gateway.server.address, sample_service.secret, "ingest", "--at", "2026-05-01")
    assert done.returncode in (1, 3)
    assert "the provider refuses access" in done.stderr
    assert "check the API key" in done.stderr
    assert gateway.paths[part.removeprefix("/v0/")] == 1
    rows = Lake(tmp_path / "data" / "lake").read("failures", "eth", MAY).to_pylist()
    assert [row["code"] for row in rows] == ["forbidden"]


@pytest.mark.parametrize(
    "refusal",
    [error(401), error(403), FIREWALL],
    ids=["401", "403", "firewall"],
)
def test_a_run_that_is_refused_everywhere_has_exit_code_1(
    sample_service: RunningService, tmp_path: Path, refusal: Step
) -> None:
    with Gateway(sample_service, about("/v0/", refusal)).serving() as gateway:
        done = command(tmp_path, gateway.server.address, sample_service.secret, "ingest", "--at", "2026-05-01")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_table_that_the_plan_lacks_is_printed_and_left_out_of_plans(
    sample_service: RunningService, tmp_path: Path
) -> None:
    keys: Any = sample_service.keys
    standard = keys.create("standard", 10**9)
    where = (tmp_path, sample_service.base_url, standard)
    before = json.loads(command(*where, "plan", "--from", "2026-04-01", "--to", "2026-04-02", "--json").stdout)
    assert "addresses" in before["tables"]
    done = command(*where, "ingest", "--at", "2026-05-01")
    assert (done.returncode, complaints(done)) == (0, [])
    assert "Skipped" in done.stdout
    assert (done.stdout + done.stderr).count("needs a custom plan") == 1
    after = json.loads(command(*where, "plan", "--from", "2026-04-01", "--to", "2026-04-02", "--json").stdout)
    assert "addresses" not in after["tables"]
    assert [one["tables"] for one in after["left_out"]] == [["addresses"]]
    assert after["credits_hundredths"] < before["credits_hundredths"]
    filled = command(*where, "backfill", "--from", "2026-04-01", "--to", "2026-04-01")
    assert filled.returncode == 0
    assert "Left out: addresses" in filled.stdout
    custom = json.loads(
        command(
            tmp_path, sample_service.base_url, sample_service.secret, "plan", "--from", "2026-04-01", "--json"
        ).stdout
    )
    assert "addresses" in custom["tables"]
    alone = command(*where, "backfill", "--from", "2026-03-01", "--to", "2026-03-01", "--table", "addresses")
    assert "Left out: addresses" in alone.stdout


def test_a_rate_limit_without_retry_after_delays_a_run(sample_service: RunningService, tmp_path: Path) -> None:
    limited = error(429, detail="Rate limit exceeded: 10000 per 1 minute")
    with Gateway(sample_service, once("/v0/", *[limited] * 3)).serving() as gateway:
        done = command(tmp_path, gateway.server.address, sample_service.secret, "ingest", "--at", "2026-05-01")
    assert (done.returncode, complaints(done)) == (0, [])


def test_a_rate_limit_that_lasts_pauses_a_backfill(sample_service: RunningService, tmp_path: Path) -> None:
    limited = error(429, detail="Rate limit exceeded: 10000 per 1 minute")
    with Gateway(sample_service, about("/v0/tokens/map", limited)).serving() as gateway:
        done = command(
            tmp_path,
            gateway.server.address,
            sample_service.secret,
            "backfill",
            "--from",
            "2026-04-01",
            "--to",
            "2026-04-02",
            "--table",
            "maps",
            HOLDERLAKE_PROVIDER__RATE_WINDOW_SECONDS="0.5",
        )
    assert done.returncode in (1, 3)
    assert "This is a rate limit, not used-up credits" in done.stderr
    assert "The sensor 'healing' resumes it" in done.stderr


@pytest.mark.parametrize(
    ("step", "cause"), [(half(token_map()), "proxy"), (endless(), "provider.answer_megabytes")], ids=["half", "endless"]
)
def test_broken_answers_are_not_bought_again_by_attempts_or_steps(
    sample_service: RunningService, tmp_path: Path, step: Step, cause: str
) -> None:
    tokens = [f"0x{number:040x}" for number in range(12)]
    options = {"HOLDERLAKE_PROVIDER__ANSWER_MEGABYTES": "1", "HOLDERLAKE_WATCHLIST": json.dumps({"eth": tokens})}
    with Gateway(sample_service, about("/v0/tokens/map", step)).serving() as gateway:
        where = (tmp_path, gateway.server.address, sample_service.secret)
        done = command(*where, "ingest", "--at", "2026-05-01", **options)
        maps = gateway.paths["tokens/map"]
        report = json.loads(command(*where, "credits", "--json", **options).stdout)
        printed = command(*where, "credits", **options).stdout
    assert done.returncode in (1, 3)
    assert "answers in a row" in done.stderr
    assert cause in done.stderr
    assert maps <= 24
    assert report["possibly_wasted"] == {"calls": maps, "spent": 0, "reserved": maps * 10_000}
    assert f"Possibly wasted: {maps}00.00 credits" in printed.replace(",", "")


def test_an_absurd_cost_is_booked_at_the_price_tables_cost(sample_service: RunningService, tmp_path: Path) -> None:
    absurd = answer(token_map(), headers={"X-Credits-Cost": "9" * 30})
    with Gateway(sample_service, about("/v0/tokens/map", absurd)).serving() as gateway:
        where = (tmp_path, gateway.server.address, sample_service.secret)
        done = command(*where, "backfill", "--from", "2026-05-01", "--to", "2026-05-01", "--table", "maps")
        shown = command(*where, "credits")
    assert done.returncode == 3  # the answer lacks the nodes that were requested
    assert "implausible credits" in done.stderr
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "named credits that cannot be true" in shown.stdout
    with CreditLedger(tmp_path / "data" / "ledger.sqlite") as ledger:
        assert {row.name: row.spent for row in ledger.report("endpoint")}["map"] == 10_000
