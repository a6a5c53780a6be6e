"""Schemathesis against the service's own description: every operation, every phase, every check, over real HTTP.

By default it runs over the small world. With ``HOLDERLAKE_EXAMPLES`` it also runs over the sample world, with that many
examples of each operation:

    HOLDERLAKE_EXAMPLES=2000 HOLDERLAKE_SEED=1 python -m pytest tests/service/test_schemathesis.py -s

By hand: ``schemathesis run http://127.0.0.1:8014/openapi.json -H "X-ApiKey: ..."``, in this repository's folder.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from holderlake.core.contract.prices import CREDIT
from holderlake.engine.store.store import Store
from holderlake.service.api.screenshots import PICTURES
from holderlake.service.settings import ServiceSettings
from tests.service.conftest import Running

EXAMPLES = int(os.environ.get("HOLDERLAKE_EXAMPLES", "8"))
WORLDS = ("small", "sample") if "HOLDERLAKE_EXAMPLES" in os.environ else ("small",)
SEED = os.environ.get("HOLDERLAKE_SEED", "1")
RULES = Path(__file__).parents[2] / "schemathesis.toml"
_SAMPLE = re.compile(r'holderlake_requests_total\{.*route="([^"]+)",status="(\d+)"\}')
_ITEM = "/v0/x/tokens/items/{chain}/{token_address}"
"""Succeeds only if chain, token and item are drawn together."""
_OWNERS = "/v0/x/tokens/clusters/{chain}/{token_address}"
"""Succeeds only after a search for wallets of one owner, which the sample world has not had."""
_PICTURE = f"{PICTURES}/{{chain}}/{{token_address}}/{{as_of}}/{{signature}}.{{form}}"
"""Succeeds only with the signed URL of a screenshot, which few examples reach."""


def _dictionary(name: str, values: Sequence[str], *places: str) -> str:
    """Return a dictionary of known values for half of the parameters' examples; random values are mostly unknown."""
    bound = [f'[parameters."{place}"]\ndictionary = "{name}"\nprobability = 0.5' for place in places]
    return "\n".join((f"[dictionaries.{name}]\nvalues = {json.dumps(list(values))}", *bound))


def _knowing(store: Store) -> str:
    """Return Schemathesis settings with the tokens and holders of a store."""
    tokens = [found.token_address for found in store.histories()]
    known = store.tokens([(found.chain, found.token_address) for found in store.histories()])
    words = [word for token in known.values() for word in (token.symbol, token.name)]
    return "\n".join(
        (
            _dictionary("chains", ["eth"], "path.chain"),
            _dictionary("tokens", tokens, "path.token_address"),
            _dictionary("words", words, "query.query"),
            _dictionary("items", ["7"], "query.token_id"),
        )
    )


def _schemathesis(running: Running, rules: str, folder: Path) -> Any:
    """Run Schemathesis with all checks; return its report."""
    settings, report = folder / "schemathesis.toml", folder / "report.json"
    settings.write_text(f"{RULES.read_text()}\n{rules}\n")
    secret = running.keys.create("schemathesis", 10**12 * CREDIT, custom_plan=True)
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--no-color", "--config-file", str(settings)),
        *("run", f"{running.base_url}/openapi.json", "--header", f"X-ApiKey: {secret}"),
        *("--checks", "all", "--phases", "examples,coverage,fuzzing", "--continue-on-failure"),
        *("--max-examples", str(EXAMPLES), "--seed", SEED, "--request-timeout", "900", "--max-response-time", "900"),
        *("--generation-database", "none", "--report", "json", "--report-json-path", str(report)),
    ]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    sys.stdout.write(ended.stdout[-1_000:])
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(report.read_text())


def _statuses(running: Running) -> dict[str, set[int]]:
    """Return the answered statuses of each route, from the service's metrics."""
    seen: dict[str, set[int]] = defaultdict(set)
    for line in httpx.get(f"{running.base_url}/metrics", timeout=None, verify=False).text.splitlines():
        if found := _SAMPLE.match(line):
            seen[found[1]].add(int(found[2]))
    return seen


@pytest.mark.long
@pytest.mark.parametrize("world_name", WORLDS)
def test_schemathesis_finds_no_failure(request, world_name, start, tmp_path, caplog):
    store = request.getfixturevalue({"small": "world", "sample": "sample_service"}[world_name]).store
    service = start(settings=ServiceSettings(calls_per_minute=10**9), store=store)
    with caplog.at_level(logging.WARNING):
        report = _schemathesis(service, _knowing(store), tmp_path)
    assert (report["complete"], report["failures"], report["errors"]) == (True, [], [])
    assert {phase["status"] for name, phase in report["phases"].items() if name != "stateful"} == {"success"}
    assert report["operations"]["tested"] == report["operations"]["total"]
    assert report["test_cases"]["generated"] >= EXAMPLES
    assert [record.getMessage() for record in caplog.records if record.name.startswith("service")] == []
    statuses = _statuses(service)
    assert {path for path, answered in statuses.items() if max(answered) >= 500} == set()
    paths = set(httpx.get(f"{service.base_url}/openapi.json", timeout=None, verify=False).json()["paths"])
    assert paths <= set(statuses)
    rare = {_PICTURE, _ITEM} | ({_OWNERS} if world_name == "sample" else set())
    assert {path for path in paths - rare if 200 not in statuses[path]} == set()
