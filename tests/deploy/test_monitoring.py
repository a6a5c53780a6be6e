"""The alert rules and the Grafana board of deploy/, against the metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.helpers.real import missing

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
PROMETHEUS: Final = DEPLOY / "prometheus"
NAME: Final = re.compile(r"\bholderlake_\w+")
SOURCES: Final = ("holderlake/operations/monitoring/prometheus.py", "holderlake/cli/metrics.py")
SERVICE: Final = "holderlake/service/observability/prometheus.py"


@pytest.fixture(scope="module")
def known() -> set[str]:
    """The names of all metrics, as in the code that exports them."""
    root = DEPLOY.parent
    pipeline = "".join((root / source).read_text() for source in SOURCES)
    service = (root / SERVICE).read_text()
    gauges = {f"holderlake_pipeline_{name}" for name in re.findall(r'(?:gauge|_gauge_of)\(\s*"(\w+)"', pipeline)}
    counters = {f"holderlake_{name}_total" for name in re.findall(r'_counter\("(\w+)"', service)}
    return gauges | counters | {f"{name}_bucket" for name in re.findall(r'"(holderlake_\w+_seconds)"', service)}


def board() -> dict[str, Any]:
    return dict(json.loads((DEPLOY / "grafana" / "holderlake.json").read_text()))


def queries() -> Iterator[str]:
    """Yield the queries of all alert rules and panels."""
    for group in yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in board()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def test_rules_and_board_use_existing_metrics(known: set[str]) -> None:
    used = {name for query in queries() for name in NAME.findall(query)}
    assert len(used) > 15
    assert used - known == set()


def test_the_board_shows_every_metric_of_the_pipeline(known: set[str]) -> None:
    used = {name for query in queries() for name in NAME.findall(query)}
    ours = {name for name in known if name.startswith("holderlake_pipeline_")}
    in_words = {"ceiling_left_hundredths", "credits_reserved_hundredths", "renewal_timestamp_seconds"}
    assert ours - used == {f"holderlake_pipeline_{name}" for name in in_words}


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board()["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in _rows(place)}
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells


def _rows(place: dict[str, int]) -> range:
    return range(place["y"], place["y"] + place["h"])


@pytest.mark.parametrize(
    "command",
    [("check", "config", "prometheus.yml"), ("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")],
)
def test_prometheus_accepts_the_files(command: tuple[str, ...]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        missing("promtool is not installed: run '.ci/install promtool'")
    ended = subprocess.run([promtool, *command], cwd=PROMETHEUS, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
