"""The recipes of CONTRIBUTING.md: each diff is applied to a copy of the tree, and the result runs in its processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.core.contract.answers import holder
from tests.helpers.misbehaving import CHAINS, Received, Step, answer, error, scripted

ROOT = Path(__file__).parents[1]
FILES = {
    "Add a field to an answer": 2,
    "Add a data-quality rule": 1,
    "Add a kind of alert rule": 1,
    "Add an asset check": 1,
    "Add a schedule for one family": 2,
    "Add an option of ingest": 2,
    "Add an endpoint": 4,
}
"""The recipes, and the most files of the product that each may change."""
TOKEN, OWNER = "0x" + "5" * 40, "0x" + "7" * 40
MAY = "2026-05-01"
FAMILIES = ("chains", "tokens", "holders", "maps", "subgraphs", "addresses")


def changed(recipe: str) -> dict[str, str]:
    """Return the new text of each file that a recipe's diff changes, by path. Lines of a hunk must occur once."""
    texts: dict[str, str] = {}
    section = (ROOT / "CONTRIBUTING.md").read_text().partition(f"## {recipe}\n")[2].partition("\n## ")[0]
    (diff,) = re.findall(r"```diff\n(.*?)```", section, re.DOTALL)
    for of_file in re.split(r"^--- .*\n", diff, flags=re.MULTILINE)[1:]:
        name, *hunks = re.split(r"^@@ .* @@\n", of_file, flags=re.MULTILINE)
        path = name.removeprefix("+++ b/").strip()
        text = (ROOT / path).read_text() if (ROOT / path).exists() else ""
        for hunk in hunks:
            lines = hunk.splitlines(keepends=True)
            before, after = ("".join(line[1:] for line in lines if line[0] not in sign) for sign in ("+", "-"))
            assert not before or text.count(before) == 1, f"{path} has {text.count(before)} times:\n{before}"
            text = text.replace(before, after) if before else text + after
        texts[path] = text
    return texts


Run = Callable[..., str]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder for a copy of the tree."""
    return tmp_path / "tree"


@pytest.fixture
def run(tree: Path, tmp_path: Path) -> Run:
    """Return a function that applies a recipe to the copy, for later calls of ``holderlake`` or of code there."""

    def start(recipe: str, settings: str, *tests: str) -> Callable[..., str]:
        for folder in ("holderlake", "assets", "resources", "pipelines", *tests):
            shutil.copytree(ROOT / folder, tree / folder, True, ignore=shutil.ignore_patterns("__pycache__"))
        for path, text in changed(recipe).items():
            (tree / path).write_text(text)
        (tmp_path / "holderlake.toml").write_text(settings)
        env = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDERLAKE_", "DAGSTER_"))}
        env |= {"PYTHONPATH": str(tree), "HOLDERLAKE_CONFIG": str(tmp_path / "holderlake.toml")}
        env |= {"HOLDERLAKE_HOME": str(tmp_path / "home"), "HOLDERLAKE_API_KEY": "a key"}

        def command(*arguments: str, code: str = "from holderlake.cli.main import main; main()") -> str:
            started = [sys.executable, *(("-c", code) if code else ("-m",)), *arguments]
            ended = subprocess.run(started, cwd=tree, env=env, capture_output=True, text=True, check=False)
            assert ended.returncode == 0, ended.stdout + ended.stderr
            return ended.stdout

        return command

    return start  # type: ignore[return-value]


def settings_of(url: str, *families: str) -> str:
    """Return settings with one token, which fetch these families only from a provider."""
    others = json.dumps([name for name in FAMILIES if name not in families])
    return f'[provider]\nurl = "{url}"\n[watchlist]\neth = ["{TOKEN}"]\n[schedule]\nleave_out = {others}\n'


def provider(**answers: Any) -> Callable[[Received], Step]:
    """Return the steps of a provider: the answer to each path that contains a name."""

    def choose(request: Received) -> Step:
        found = [body for name, body in {**answers, "v0/chains": CHAINS}.items() if name in request.target]
        return answer(found[0]) if found else error(404, "not_found")

    return choose


def held(rank: int, address: str = OWNER, share: float = 0.1) -> dict[str, Any]:
    """A holder as the API describes it."""
    return {**holder(address, rank), "holder_data": {"amount": 10 - rank, "rank": rank, "share": share}}


@pytest.mark.parametrize(("recipe", "most"), FILES.items())
def test_a_recipe_changes_few_files_and_names_their_present_lines(recipe: str, most: int) -> None:
    assert 1 <= len([path for path in changed(recipe) if not path.startswith("tests/")]) <= most


def test_each_diff_of_the_guide_is_a_recipe_that_runs() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    assert {part.partition("\n")[0] for part in guide.split("\n## ") if "```diff" in part} == FILES.keys()


@pytest.mark.long
def test_a_new_endpoint_is_planned_fetched_checked_and_loaded(run: Run) -> None:
    pools = [{"address": OWNER, "dex": "a dex", "share": 0.25}, {"address": "0x" + "8" * 40, "share": 0.5}]
    with scripted(choose=provider(pools=pools)) as server:
        command: Any = run("Add an endpoint", settings_of(server.address))
        planned = json.loads(command("plan", "--from", MAY, "--to", MAY, "--table", "pools", "--json"))
        assert planned["credits_hundredths"] == 200
        stored = json.loads(command("ingest", "--at", MAY, "--json"))
        assert (stored["rows"]["pools"], stored["credits_spent_hundredths"]) == (2, 200)
        assert json.loads(command("plan", "--from", MAY, "--to", MAY, "--table", "pools", "--json"))["finished"]
    query = f"SELECT token_address, dex, share FROM pools_as_of('{MAY}') ORDER BY share"
    rows = json.loads(command("sql", query, "--json"))
    assert [tuple(row.values()) for row in rows] == [(TOKEN, "a dex", 0.25), (TOKEN, None, 0.5)]


@pytest.mark.long
def test_a_new_field_is_computed_served_and_loaded(run: Run) -> None:
    others = json.dumps([name for name in FAMILIES if name != "tokens"])
    command: Any = run("Add a field to an answer", f"[schedule]\nleave_out = {others}\n")
    command("ingest", "--at", MAY, "--json")
    rows = json.loads(command("sql", "SELECT epoch(min_date), epoch(max_date), active_days FROM tokens", "--json"))
    assert rows
    assert all(days == (last - first) // 86_400 for first, last, days in map(dict.values, rows))


@pytest.mark.long
def test_a_new_rule_about_rows_finds_what_breaks_it(run: Run) -> None:
    command: Any = run("Add a data-quality rule", "", "tests")
    printed = command("pytest", "tests/assets/test_checks.py", "-q", "-n", "0", "-k", "dates", code="")
    assert "1 passed" in printed


@pytest.mark.long
@pytest.mark.parametrize(("second", "failed"), [(held(2, "0x" + "8" * 40), False), (held(2), True)])
def test_a_new_check_fails_on_a_bad_row_only(run: Run, second: Mapping[str, Any], failed: bool) -> None:
    code = """
from holderlake.assets.checks import evaluate
from holderlake.assets.holders import HOLDERS
from holderlake.core.settings import load_settings
from holderlake.core.workspace import make_workspace
print([check.passed for check in evaluate(make_workspace(load_settings()), HOLDERS, None)
       if check.check_name == "keys_are_unique"])
"""
    with scripted(choose=provider(holders=[held(1), second])) as server:
        command: Any = run("Add an asset check", settings_of(server.address, "holders"))
        command("ingest", "--at", MAY, "--json")
        assert command(code=code).strip() == str([not failed])


@pytest.mark.long
def test_a_new_schedule_fetches_its_family_as_of_each_hour(run: Run) -> None:
    code = """
from datetime import UTC, datetime
from dagster import DagsterInstance, build_schedule_context
from holderlake.core.settings import load_settings
from holderlake.core.workspace import make_workspace
from holderlake.pipelines.definitions import build_defs
workspace = make_workspace(load_settings())
defs = build_defs(workspace)
with DagsterInstance.local_temp() as instance:
    for hour in (7, 8):
        at = datetime(2026, 5, 1, hour, tzinfo=UTC)
        given = {"resources": {"workspace": workspace}}
        given["repository_def"] = defs.get_repository_def()
        with build_schedule_context(instance, scheduled_execution_time=at, **given) as tick:
            (due,) = defs.resolve_schedule_def("hourly_holders").evaluate_tick(tick).run_requests
        job = defs.resolve_job_def("hourly_holders")
        done = job.execute_in_process(due.run_config, instance, due.partition_key, tags=due.tags)
        assert done.success
"""
    with scripted(choose=provider(holders=[held(1)])) as server:
        command: Any = run("Add a schedule for one family", settings_of(server.address, "holders"))
        command(code=code)
        assert {request.target.partition("?")[0] for request in server.received} == {f"/v0/tokens/holders/eth/{TOKEN}"}
    rows = json.loads(command("sql", "SELECT hour(timestamp) AS hour FROM holders ORDER BY ALL", "--json"))
    assert [row["hour"] for row in rows] == [7, 8]


@pytest.mark.long
def test_a_new_kind_of_alert_has_its_option_in_the_settings(run: Run) -> None:
    rule = '[alerts.rules.mine]\nrule = "large_holder"\nfrom_rank = 3\n'
    holders = [held(rank, f"0x{rank:040x}", 0.3) for rank in (1, 2, 3)]
    with scripted(choose=provider(holders=holders)) as server:
        command: Any = run("Add a kind of alert rule", settings_of(server.address, "holders") + rule)
        command("ingest", "--at", MAY, "--json")
    found = json.loads(command("alerts", "list", "--from", MAY, "--json"))
    assert [(alert["subject"], alert["evidence"]["rank"]) for alert in found] == [(f"0x{3:040x}", 3)]


@pytest.mark.long
@pytest.mark.parametrize("instants", [[MAY], [MAY, "2026-06-01"]], ids=["one day", "a backfill"])
def test_a_new_option_of_ingest_reaches_the_run(run: Run, instants: list[str]) -> None:
    ingest = ("ingest", "--refresh", "--json", *(word for at in instants for word in ("--at", at)))
    with scripted(choose=provider(holders=[held(1)])) as server:
        command: Any = run("Add an option of ingest", settings_of(server.address, "holders"))
        command(*ingest)
        first = len(server.received)
        command(*ingest, "--older-than", "7d")
        assert len(server.received) == first
        command(*ingest)
        assert len(server.received) > first
