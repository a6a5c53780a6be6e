"""Screenshots: a paid request returns the address of a picture, which everyone with the address can open."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from holderlake.core.contract import exact_json
from holderlake.core.contract.models import Screenshot
from holderlake.service.settings import ServiceSettings

pytestmark = pytest.mark.integration


def get(url: str, **options: Any) -> httpx.Response:
    """Request an address without a key and without a time limit."""
    return httpx.get(url, timeout=None, verify=False, **options)


@pytest.fixture
def shot(caller, world):
    answer = caller.http.get(f"/v0/tokens/screenshot/eth/{world.token}")
    assert answer.status_code == 200, answer.text
    return exact_json.decode(answer.content, Screenshot)


def test_picture_needs_no_key_and_is_free(caller, shot):
    answer = get(shot.image_url)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert answer.content.startswith(b"\x89PNG")
    assert caller.spent == 25_00


def test_picture_is_available_as_svg(shot):
    answer = get(shot.image_url.removesuffix("png") + "svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert b"6 of the 7 largest holders drawn, with 78.5% of the supply" in answer.content


@pytest.mark.parametrize("query", ["width=600", "width=1600&theme=dark"])
def test_width_and_theme_can_be_chosen(shot, query):
    chosen = get(f"{shot.image_url}?{query}")
    assert (chosen.status_code, chosen.headers["content-type"]) == (200, "image/png")
    assert chosen.content != get(shot.image_url).content


@pytest.mark.parametrize("query", ["width=601", "width=huge", "theme=pink"])
def test_other_widths_and_themes_are_refused(shot, query):
    assert get(f"{shot.image_url}?{query}").status_code == 422


def test_unsigned_address_has_no_picture(shot, world):
    path, signature = shot.image_url.removesuffix(".png").rsplit("/", 1)
    other = ("0" if signature[0] != "0" else "1") + signature[1:]
    assert get(f"{path}/{other}.png").json()["code"] == "not_found"
    assert get(shot.image_url.replace(world.token, world.young)).json()["code"] == "not_found"


def test_unchanged_picture_answers_304(shot):
    first = get(shot.image_url)
    again = get(shot.image_url, headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304


def test_picture_address_uses_the_public_url(start, world):
    caller = start(settings=ServiceSettings(public_url="https://maps.example/api/")).caller()
    found = caller.http.get(f"/v0/tokens/screenshot/eth/{world.token}").json()
    assert found["image_url"].startswith("https://maps.example/api/v0/x/pictures/eth/")


def test_picture_address_uses_the_host_of_the_request(caller, world):
    path = f"/v0/tokens/screenshot/eth/{world.token}"
    answers = [caller.http.get(path, headers={"Host": host}).json() for host in ("one.example", "two.example")]
    assert [answer["image_url"].split("/")[2] for answer in answers] == ["one.example", "two.example"]


def test_token_without_map_has_no_picture_and_no_charge(caller, world):
    assert caller.http.get(f"/v0/tokens/screenshot/eth/{world.unsupported}").status_code == 400
    assert caller.http.get(f"/v0/tokens/screenshot/eth/0x{'f' * 40}").status_code == 404
    assert caller.spent == 0
