"""``holderlake doctor``: one line for each cause, in words of the person who runs it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from holderlake.core.contract.times import utc_now
from holderlake.core.settings import Settings
from holderlake.operations.alerts.outbox import Outbox
from holderlake.operations.alerts.rules import Alert
from holderlake.operations.alerts.settings import alerts_database
from holderlake.operations.doctor.doctor import _alerts, _each_cause_once
from holderlake.operations.doctor.file_checks import Finding
from tests.end_to_end.foreign_provider import ForeignProvider
from tests.helpers.commands import holderlake

pytestmark = pytest.mark.integration

Problems = Callable[..., dict[str, tuple[str, str]]]
TOKEN = "0x" + "1" * 40


@pytest.fixture
def problems(tmp_path: Path) -> Problems:
    """Return the problems that doctor names, as (found, advice) by check."""

    def run(**variables: str) -> dict[str, tuple[str, str]]:
        system = {name: value for name, value in os.environ.items() if not name.startswith("HOLDERLAKE_")}
        env = system | {"HOLDERLAKE_HOME": str(tmp_path / "home"), "HOLDERLAKE_API_KEY": "a-key"}
        ended = holderlake("doctor", "--quiet", "--json", env=env | variables)
        return {one["what"]: (one["found"], one["advice"]) for one in json.loads(ended.stdout)}

    return run


def test_a_home_of_another_provider_is_one_problem(problems: Problems, tmp_path: Path) -> None:
    (tmp_path / "home" / "lake").mkdir(parents=True)
    (tmp_path / "home" / "lake" / "_provider.json").write_text('{"provider": "https://other.example"}')
    watched = {"HOLDERLAKE_WATCHLIST": json.dumps({"eth": [TOKEN]})}
    ((what, (found, _)),) = problems(HOLDERLAKE_PROVIDER__URL="http://127.0.0.1:9", **watched).items()
    assert what == "provider"
    assert "has data of 'https://other.example' and cannot mix it with data of 'http://127.0.0.1:9'" in found


def test_an_address_set_of_an_unwatched_chain_is_a_problem(problems: Problems) -> None:
    with ForeignProvider().serving() as provider:
        found = problems(
            HOLDERLAKE_PROVIDER__URL=provider.address,
            HOLDERLAKE_WATCHLIST=json.dumps({"eth": [TOKEN]}),
            HOLDERLAKE_ADDRESS_SETS=json.dumps({"a": {"addresses": [TOKEN, "0x" + "2" * 40], "chain": "bsc"}}),
        )
    assert list(found) == ["address sets"]
    assert found["address sets"][1] == "add a token of bsc under [watchlist], or remove the set"
    assert provider.unknown == [], "only paths of the contract are requested"


def test_an_unsent_alert_is_a_problem_until_it_is_given_up(tmp_path: Path) -> None:
    settings, now = Settings(home=tmp_path), utc_now()
    outbox = Outbox(alerts_database(settings))
    outbox.add([Alert("rule", "new_top_holder", "eth", TOKEN, now, "0x1", "", 1, 1, {})], ["log"], now)
    (due,) = outbox.due(now)
    outbox.postpone(due, "refused", now)
    assert not _alerts(settings).fine
    outbox.give_up(now + timedelta(seconds=1))
    assert _alerts(settings).fine


def test_problems_with_one_cause_are_one_line() -> None:
    formats = Finding("formats", False, "x.db is damaged; move it away")
    ledger = Finding("ledger", False, "x.db is damaged", "run the repair")
    fine = Finding("disk", True, "x.db is damaged")
    assert _each_cause_once([formats, ledger, fine, ledger]) == [ledger, fine]
