"""Settings: the file, the environment that overrides it, the errors, and secrets that appear nowhere."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable
from datetime import timedelta
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from holderlake.core.contract.models import TokenKey
from holderlake.core.provider.client import ProviderClient
from holderlake.core.setting_types import Section
from holderlake.core.settings import AddressSet, Settings, SettingsError, load_settings
from holderlake.core.settings.cron import check_cron, interval_of
from holderlake.core.settings.sections.provider import ProviderSettings
from holderlake.engine.settings import store_folder
from holderlake.service.settings import accounts_file
from holderlake.sources.settings import SourceSettings

SECRET = "hl_sekret_1234567890"
Write = Callable[[str], Path]

TOKEN = "0x" + "9" * 40


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the current directory an empty one, and remove all settings from the environment."""
    for name in [name for name in os.environ if name.startswith("HOLDERLAKE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def toml(empty_folder: Path) -> Write:
    def write(text: str) -> Path:
        path = empty_folder / "holderlake.toml"
        path.write_text(text)
        return path

    return write


def error() -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings()
    return str(caught.value)


def test_settings_have_defaults() -> None:
    settings = load_settings()
    assert settings == Settings()
    assert settings.home == Path("data")
    assert settings.provider.url is None
    assert settings.schedule.cron == "5 0 * * *"
    assert settings.schedule.live_tolerance_seconds == 3_600
    assert (settings.maps.limit, settings.holders.limit, settings.holders.with_metadata) == (80, 80, False)
    assert (settings.service.host, settings.service.port) == ("127.0.0.1", 8014)
    assert settings.key() is None


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [({"local": "store"}, True), ({"local": "sample"}, False), ({"url": "https://api.example.com"}, False)],
)
def test_only_an_own_store_fills_the_details_of_holders_by_default(chosen: dict[str, Any], expected: bool) -> None:
    assert Settings(provider=chosen).holders.with_metadata is expected
    assert Settings(provider=chosen, holders={"with_metadata": not expected}).holders.with_metadata is not expected


def test_a_client_without_settings_calls_as_one_with_default_settings() -> None:
    client = {name: parameter.default for name, parameter in signature(ProviderClient).parameters.items()}
    names = {"timeout": "timeout_seconds"} | {name: name for name in ("attempts", "concurrency", "rate_per_minute")}
    settings = ProviderSettings()
    assert {name: client[name] for name in names} == {name: getattr(settings, names[name]) for name in names}


def test_all_files_are_under_home() -> None:
    settings = Settings(home=Path("x"))
    places = (
        settings.lake_folder,
        settings.warehouse,
        settings.ledger,
        settings.archive,
        settings.dagster_home,
        store_folder(settings),
        accounts_file(settings),
    )
    assert len(set(places)) == 7
    assert all(Path("x") in place.parents for place in places)


def test_load_settings_reads_the_file(toml: Write) -> None:
    toml(
        """
        home = "lakes/mine"
        [provider]
        url = "https://provider.invalid"
        timeout_seconds = 2.5
        [watchlist]
        eth = ["0xABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCD", "native", "0xabcdefabcdefabcdefabcdefabcdefabcdefabcd"]
        solana = ["EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"]
        [address_sets.friends]
        addresses = ["0xA100000000000000000000000000000000000000", "0xB200000000000000000000000000000000000000"]
        chain = "eth"
        context = { chain = "eth", address = "0xC3" }
        [budget]
        per_run = 25
        per_day = "25.01"
        per_month = 1000.10
        renewal_day = 28
        [schedule]
        offsets = ["12:30", "00:00"]
        [engine]
        store = "raw"
        thresholds = { magic_links = 3 }
        """
    )
    settings = load_settings()
    assert settings.home == Path("lakes/mine")
    assert settings.provider.timeout_seconds == 2.5
    assert settings.watchlist["eth"] == ["0x" + "abcdef" * 6 + "abcd", "native"]
    assert settings.watchlist["solana"] == ["EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"]
    friends = settings.address_sets["friends"]
    assert (friends.addresses, friends.chain) == (["0xa1" + "0" * 38, "0xb2" + "0" * 38], "eth")
    assert friends.context == TokenKey(chain="eth", address="0xc3")
    assert (settings.budget.per_run, settings.budget.per_day, settings.budget.per_month) == (25_00, 25_01, 1000_10)
    assert settings.schedule.offsets == [timedelta(0), timedelta(hours=12, minutes=30)]
    assert store_folder(settings) == Path("raw")
    assert settings.engine.thresholds.model_dump(exclude_unset=True) == {"magic_links": 3}


def test_the_environment_overrides_single_keys_of_the_file(toml: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    toml('home = "file"\n[provider]\nattempts = 2\nconcurrency = 3\n[watchlist]\neth = ["native"]\nbase = ["native"]')
    monkeypatch.setenv("HOLDERLAKE_HOME", "environment")
    monkeypatch.setenv("HOLDERLAKE_PROVIDER__ATTEMPTS", "7")
    monkeypatch.setenv("HOLDERLAKE_MAPS__LIMIT", "250")
    monkeypatch.setenv("HOLDERLAKE_BUDGET__PER_RUN", "0.01")
    monkeypatch.setenv("HOLDERLAKE_WATCHLIST__ETH", f'["{TOKEN}"]')
    settings = load_settings()
    assert settings.home == Path("environment")
    assert (settings.provider.attempts, settings.provider.concurrency) == (7, 3)
    assert settings.maps.limit == 250
    assert settings.budget.per_run == 1
    assert settings.watchlist == {"eth": [TOKEN], "base": ["native"]}


def test_an_empty_variable_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_API_KEY", "")
    monkeypatch.setenv("HOLDERLAKE_HOME", "")
    assert load_settings() == Settings()


def test_a_variable_names_a_file_whose_paths_are_relative_to_it(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_folder / "etc").mkdir()
    (empty_folder / "etc" / "mine.toml").write_text('home = "lake"\n[engine]\nstore = "/raw"')
    monkeypatch.setenv("HOLDERLAKE_CONFIG", str(empty_folder / "etc" / "mine.toml"))
    settings = load_settings()
    assert settings.home == empty_folder / "etc" / "lake"
    assert store_folder(settings) == Path("/raw")


def test_a_missing_named_file_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_CONFIG", "nowhere.toml")
    assert "there is no settings file nowhere.toml" in error()


def test_the_constructor_ignores_file_and_environment(toml: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    toml('home = "file"')
    monkeypatch.setenv("HOLDERLAKE_HOME", "environment")
    assert Settings(home=Path("given")).home == Path("given")
    assert Settings().home == Path("data")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[provider]\nurll = 'x'", "holderlake.toml: provider.urll: there is no such setting; did you mean url?"),
        ("hom = 'x'", "holderlake.toml: hom: there is no such setting; did you mean home?"),
        ("[maps]\ncolour = 1", "there are limit, use_magic_nodes, use_time_nodes"),
        ("[engine.thresholds]\nmagic_link = 1", "did you mean magic_links?"),
        ("[address_sets.x]\naddresses = ['0x1', '0x2']\nchian = 'eth'", "address_sets.x.chian: .* did you mean chain?"),
        (f"[address_sets.x]\naddresses = ['{TOKEN}', '{TOKEN.upper()}']", "at least two different addresses"),
        ("[address_sets.x]\nchain = 'eth'", "address_sets.x.addresses: Field required"),
        ("[watchlist]\n'e/th' = ['0x1']", "watchlist"),
        ("[watchlist]\ntron = ['0x123']", "watchlist: '0x123' is not an address of chain tron"),
        ("[watchlist]\neth = ['0x 1']", "watchlist: '0x 1' is not an address of chain eth"),
        ("[budget]\nper_run = 25.001", "budget.per_run: '25.001' is not an amount of credits"),
        ("[budget]\nper_run = -1", "budget.per_run: '-1' is not an amount of credits"),
        ("[budget]\nper_run = true", "budget.per_run: an amount of credits is expected"),
        ("[budget]\nrenewal_day = 29", "budget.renewal_day: Input should be less than or equal to 28"),
        ("[maps]\nlimit = 100", "maps.limit: Input should be 80, 250 or 500"),
        ("[schedule]\ncron = 'daily'", "schedule.cron: invalid cron schedule 'daily': it needs five fields"),
        (
            "[schedule]\ncron = '99 0 * * *'",
            "schedule.cron: invalid cron schedule '99 .* bad minute; use numbers",
        ),
        ("[schedule]\ncron = '0 0 31 2 *'", "invalid cron schedule '0 0 31 2 .* bad day-of-month"),
        ("[schedule]\ncron = '0 5-2 * * *'", "invalid cron schedule '0 5-2 .* bad hour"),
        ("[schedule]\ncron = '0 0 * * someday'", "invalid cron schedule '0 0 .* bad day-of-week"),
        ("[watchlist]\nethereum = ['native']", "watchlist: chain 'ethereum' is called eth here; use eth"),
        ("[schedule]\noffsets = ['24:00']", "invalid time of day '24:00'"),
        ("[schedule]\noffsets = []", "schedule.offsets"),
        ("[provider]\nurl = 'ftp://x'", "provider.url"),
        ("[provider]\nattempts = 0\nconcurrency = 0", "attempts.*concurrency"),
        ("provider = 'x'", "holderlake.toml: provider: "),
        ("home = ", "holderlake.toml can't be read"),
    ],
)
def test_an_error_in_the_file_names_the_key(toml: Write, text: str, words: str) -> None:
    toml(text)
    with pytest.raises(SettingsError, match=words):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("HOLDERLAKE_PROVIDER__URLL", "x", "HOLDERLAKE_PROVIDER__URLL: there is no such setting; did you mean url?"),
        ("HOLDERLAKE_SERVICE__PORT", "0", "HOLDERLAKE_SERVICE__PORT: "),
        ("HOLDERLAKE_PROVDER__URL", "x", "there is no section provder; did you mean HOLDERLAKE_PROVIDER__URL?"),
        ("HOLDERLAKE_WATCHLIST__ETHEREUM", '["native"]', "chain 'ethereum' is called eth here; use eth"),
        ("HOLDERLAKE_WATCHLIST", "eth=0x1", "HOLDERLAKE_WATCHLIST: the value is not JSON"),
    ],
)
def test_an_error_in_the_environment_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=words):
        load_settings()


@pytest.mark.parametrize("name", ["api_key", "api_key_file"])
def test_an_api_key_in_the_file_is_refused(toml: Write, name: str) -> None:
    toml(f'{name} = "{SECRET}"')
    message = error()
    assert message.startswith(f"{name} does not belong in holderlake.toml")
    assert "HOLDERLAKE_API_KEY" in message
    assert SECRET not in message


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_API_KEY", SECRET)
    key = load_settings().key()
    assert key is not None
    assert key.get_secret_value() == SECRET


def test_the_key_comes_from_a_file_named_in_the_environment(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_folder / "key").write_text(f"{SECRET}\n")
    monkeypatch.setenv("HOLDERLAKE_API_KEY_FILE", "key")
    key = load_settings().key()
    assert key is not None
    assert key.get_secret_value() == SECRET


@pytest.mark.parametrize("text", [None, "", "\n", "two words"])
def test_a_key_file_without_exactly_one_key_is_an_error(empty_folder: Path, text: str | None) -> None:
    if text is not None:
        (empty_folder / "key").write_text(text)
    with pytest.raises(SettingsError, match="the file key must contain the API key and nothing else"):
        Settings(api_key_file=Path("key")).key()


def test_a_key_and_a_key_file_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_API_KEY", SECRET)
    monkeypatch.setenv("HOLDERLAKE_API_KEY_FILE", "key")
    assert "api_key and api_key_file are both set" in error()


def test_no_text_of_the_settings_contains_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_API_KEY", SECRET)
    settings = load_settings()
    for text in (repr(settings), str(settings), settings.model_dump_json(), str(settings.model_dump())):
        assert SECRET not in text


def test_no_traceback_of_an_error_contains_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_API_KEY", SECRET)
    monkeypatch.setenv("HOLDERLAKE_SERVICE__PORT", "0")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_settings_are_immutable_and_can_be_pickled() -> None:
    settings = Settings(home=Path("x"))
    with pytest.raises(ValueError, match="frozen"):
        settings.home = Path("y")
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_without_provider_returns_the_embedded_defaults() -> None:
    chosen = Settings(
        home=Path("x"),
        provider={"url": "http://127.0.0.1:1", "attempts": 2},
        watchlist={"eth": [TOKEN]},
        address_sets={"friends": AddressSet(addresses=[TOKEN, TOKEN.replace("9", "8")])},
    ).without_provider()
    assert (chosen.provider.url, chosen.provider.attempts) == (None, 2)
    assert (chosen.watchlist, chosen.address_sets, chosen.home) == ({}, {}, Path("x"))


@pytest.mark.parametrize(("before", "given", "after"), [(None, 5, 5), ("0.03", 5, 3), ("1", 5, 5)])
def test_a_run_ceiling_never_raises_the_one_in_the_settings(before: str | None, given: int, after: int) -> None:
    budget = {} if before is None else {"per_run": before}
    assert Settings(budget=budget).with_run_ceiling(given).budget.per_run == after


def every_section(model: type[Section] | type[Settings]) -> list[type[Section]]:
    types = [field.annotation for field in model.model_fields.values()]
    sections = [one for one in types if isinstance(one, type) and issubclass(one, Section)]
    return sections + [inner for one in sections for inner in every_section(one)]


def test_every_setting_has_a_description() -> None:
    for model in (Settings, AddressSet, *every_section(Settings)):
        for name, field in model.model_fields.items():
            section = isinstance(field.annotation, type) and issubclass(field.annotation, Section)
            assert field.description or section, f"{model.__name__}.{name}"


# ---------------------------------------------------------------- nodes

NODE = "https://node.example/v2/sekret-of-the-node"


def test_nodes_come_from_the_environment_as_json_or_words(monkeypatch: pytest.MonkeyPatch, toml: Write) -> None:
    toml("[sources.rpc.eth]\nconfirmations = 3\n")
    for written in (f'["{NODE}", "http://b"]', f"{NODE} http://b"):
        monkeypatch.setenv("HOLDERLAKE_SOURCES__RPC__ETH__ENDPOINTS", written)
        settings = load_settings()
        assert [url.get_secret_value() for url in settings.section(SourceSettings).node_endpoints("eth")] == [
            NODE,
            "http://b",
        ]
        assert settings.section(SourceSettings).node("eth").confirmations == 3
        assert settings.section(SourceSettings).node_chains == ["eth"]
        assert "sekret" not in repr(settings)


def test_nodes_come_from_a_file_next_to_the_settings(toml: Write, empty_folder: Path) -> None:
    toml('[sources.rpc.eth]\nendpoints_file = "nodes"\n')
    (empty_folder / "nodes").write_text(f"{NODE}\nhttp://b\n")
    assert [url.get_secret_value() for url in load_settings().section(SourceSettings).node_endpoints("eth")] == [
        NODE,
        "http://b",
    ]


@pytest.mark.parametrize("content", [None, "", "not-an-address-but-a-sekret"])
def test_an_error_about_a_file_of_nodes_hides_its_content(content: str | None, toml: Write, empty_folder: Path) -> None:
    toml('[sources.rpc.eth]\nendpoints_file = "nodes"\n')
    if content is not None:
        (empty_folder / "nodes").write_text(content)
    with pytest.raises(SettingsError, match="must contain addresses of nodes of chain eth, one a line") as caught:
        load_settings().section(SourceSettings).node_endpoints("eth")
    assert "sekret" not in str(caught.value)


def test_nodes_in_the_settings_file_are_refused(toml: Write) -> None:
    toml(f'[sources.rpc.eth]\nendpoints = ["{NODE}"]\n')
    message = error()
    assert "HOLDERLAKE_SOURCES__RPC__ETH__ENDPOINTS" in message
    assert "sekret" not in message


def test_an_error_about_a_node_hides_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_SOURCES__RPC__ETH__ENDPOINTS", '["sekret"]')
    message = error()
    assert "the address of a node is expected" in message
    assert "sekret" not in message


def test_an_error_about_an_unknown_node_setting_proposes_the_nearest(toml: Write) -> None:
    toml("[sources.rpc.eth]\nconfirmation = 3\n")
    assert "did you mean confirmations?" in error()


@pytest.mark.parametrize(
    "cron", ["5 0 * * *", "*/15 0-6,12 1 jan-mar/2 MON-fri", "0 0 29 2 *", "0 0 31 * 0,7", "7/20 * * * *"]
)
def test_dagster_accepts_every_valid_cron_schedule(cron: str) -> None:
    from dagster._utils.schedules import is_valid_cron_schedule

    assert check_cron(f" {cron} ") == cron
    assert is_valid_cron_schedule(cron)


@pytest.mark.parametrize("cron", ["0 0 L * *", "0 0 * * 5L", "0 0 * * 1#2", "0 0 0 1 1 *", "60 * * * *", "*/0 * * * *"])
def test_an_invalid_cron_schedule_is_refused(cron: str) -> None:
    with pytest.raises(ValueError, match="cron schedule"):
        check_cron(cron)


@pytest.mark.parametrize(
    ("cron", "hours"),
    [
        ("* * * * *", 1 / 60),
        ("5 0 * * *", 24),
        ("0 */6 * * *", 6),
        ("0 9-17 * * mon-fri", 64),
        ("0 0 1,15 * *", 17 * 24),
        ("0 0 1 * mon", 7 * 24),
        ("*/30 8 * jan *", 336 * 24 - 0.5),
        ("0 0 */2 * mon", 48),
        ("0 0 29 2 *", 366 * 24),
    ],
)
def test_interval_of_is_the_longest_gap_between_ticks(cron: str, hours: float) -> None:
    assert interval_of(check_cron(cron)) == timedelta(hours=hours)


@pytest.mark.parametrize("page", ["http://scan.example/{value}", "https://scan.example/", "javascript:{value}"])
def test_a_block_explorer_without_https_or_a_place_for_the_value_is_refused(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDERLAKE_EXPLORER__ADDRESS_LINKS", f'{{"eth": "{page}"}}')
    with pytest.raises(SettingsError, match=r"scan\.example/address"):
        load_settings()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://user:sekret@api.example.com", "leave them out"),
        ("https://user@api.example.com", "leave them out"),
        ("api.example.com", "an address with http:// or https:// is expected"),
        ("https://", "an address with http:// or https:// is expected"),
        ("https://[api", "an address with http:// or https:// is expected"),
    ],
)
def test_a_wrong_provider_address_is_one_sentence(monkeypatch: pytest.MonkeyPatch, url: str, reason: str) -> None:
    monkeypatch.setenv("HOLDERLAKE_PROVIDER__URL", url)
    with pytest.raises(SettingsError, match="HOLDERLAKE_PROVIDER__URL: ") as raised:
        load_settings()
    assert reason in str(raised.value)
    assert "sekret" not in str(raised.value)


def test_an_error_about_a_form_has_no_regular_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_LAKE__URL", "bucket/lake")
    with pytest.raises(SettingsError, match="s3://bucket/lake") as raised:
        load_settings()
    assert "^" not in str(raised.value)


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("WATCHLIST", f'{{"bsc": ["{TOKEN}"]}}', {"bsc": [TOKEN]}),
        ("WATCHLIST__ETH", f'["{TOKEN}"]', {"eth": [TOKEN], "base": ["native"]}),
        ("WATCHLIST__BSC", f'["{TOKEN}"]', {"eth": ["native"], "base": ["native"], "bsc": [TOKEN]}),
    ],
)
def test_a_variable_replaces_a_complete_table_or_list_of_the_file(
    toml: Write, monkeypatch: pytest.MonkeyPatch, variable: str, text: str, expected: dict[str, list[str]]
) -> None:
    toml('[watchlist]\neth = ["native"]\nbase = ["native"]')
    monkeypatch.setenv(f"HOLDERLAKE_{variable}", text)
    assert load_settings().watchlist == expected


@pytest.mark.parametrize("home", ["/proc/x", "/sys/x", "/dev/x"])
def test_a_home_on_a_file_system_of_the_kernel_is_refused(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.setenv("HOLDERLAKE_HOME", home)
    assert f"HOLDERLAKE_HOME is {home}, but {home[:-2]} is a file system of the kernel" in error()


def test_a_home_that_is_a_file_is_refused(monkeypatch: pytest.MonkeyPatch, empty_folder: Path) -> None:
    (empty_folder / "home").write_text("")
    monkeypatch.setenv("HOLDERLAKE_HOME", "home")
    assert error() == f"HOLDERLAKE_HOME is home, but {Path('home')} is a file; set it to a folder"


def test_an_address_set_of_an_unwatched_chain_is_named() -> None:
    members = ["0x" + "1" * 40, "0x" + "2" * 40]
    sets = {"a": {"addresses": members, "chain": "bsc"}, "b": {"addresses": members}}
    (sentence,) = Settings(watchlist={"eth": [TOKEN]}, address_sets=sets).unscheduled_sets()
    assert sentence.startswith("address_sets.a is of chain bsc, of which no token is watched")
    assert Settings(watchlist={"bsc": [TOKEN]}, address_sets=sets).unscheduled_sets() == []


@pytest.mark.parametrize("site", ["*", "https://a.example/page", "a.example", "https://a.b; script-src *"])
def test_a_site_that_may_frame_the_explorer_is_an_origin(toml: Write, site: str) -> None:
    toml(f'[explorer]\nembed_in = ["{site}"]\n')
    assert f"{site!r} is no origin" in error()
