"""The layout of the shipped page, in Chromium's worker: no overlap at any instant, whatever was laid out before."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Iterator, Mapping
from http.server import SimpleHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import pytest

from holderlake.presentation.explorer.app import STATIC
from tests.helpers.browser import opened_browser
from tests.helpers.servers import LoopbackServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.integration

Task = Mapping[str, Any]

LAY_OUT = """
async (tasks) => {
    const worker = new Worker("layout.js", { type: "module" });
    const placed = [];
    for (const task of tasks) {
        const answer = new Promise((done) => { worker.onmessage = ({ data }) => done([...data.places]); });
        worker.postMessage({ number: 1, ...task });
        placed.push(await answer);
    }
    worker.terminate();
    return placed;
}
"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """Open a page of the folder that has the shipped layout."""
    with LoopbackServer(functools.partial(_Quiet, directory=STATIC)) as server, opened_browser() as browser:
        opened = browser.new_page()
        opened.set_default_timeout(0)  # pytest ends a test that hangs
        opened.goto(f"{server.url}/licences.txt")
        yield opened


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing."""


def history(seed: int, instants: int) -> list[list[tuple[str, float]]]:
    """Return the nodes of each instant of a random history, with their radii: holders come, go, grow and shrink."""
    chance = random.Random(seed)
    holders = {f"0x{chance.getrandbits(160):040x}": chance.paretovariate(0.8) for _ in range(chance.randint(2, 250))}
    found = []
    for _ in range(instants):
        holders = {
            address: max(1e-9, held * chance.lognormvariate(0, 0.5))
            for address, held in holders.items()
            if chance.random() > 0.03
        } | {f"0x{chance.getrandbits(160):040x}": chance.paretovariate(0.8) for _ in range(chance.randrange(8))}
        supply = sum(holders.values()) * 1.2
        found.append([(address, max(2.2, 120 * math.sqrt(held / supply))) for address, held in holders.items()])
    return found


def tasks_of(seed: int, instants: int) -> tuple[Task, list[Task]]:
    """Return the layout tasks of a random history, and of each of its instants, as the page makes them."""
    chance, nodes = random.Random(seed), history(seed, instants)
    radii: dict[str, float] = {}
    for address, radius in itertools.chain.from_iterable(nodes):
        radii.setdefault(address, radius)
    known = list(radii)[:200]  # the page lays a limited number of nodes out
    links = [chance.sample(range(len(known)), 2) for _ in range(len(known))] if len(known) > 1 else []
    common = {"aspect": chance.choice([0.85, 1.6])}
    past = common | {"ids": known, "radii": [radii[one] for one in known], "links": links}
    tasks = [
        common
        | {
            "ids": [one for one, _ in at],
            "radii": [radius for _, radius in at],
            "links": _ties(at, chance),
            "groups": _groups(len(at), chance),
        }
        for at in nodes
    ]
    return past, tasks


def _ties(at: list[tuple[str, float]], chance: random.Random) -> list[list[int]]:
    return [chance.sample(range(len(at)), 2) for _ in range(60)] if len(at) > 1 else []


def _groups(nodes: int, chance: random.Random) -> list[int | None]:
    """Return a random cluster of each node, or None: one is large, the others are small."""
    return [chance.choice([None, 1, 1, chance.randint(2, 20)]) for _ in range(nodes)]


def laid_out(page: Page, past: Task, tasks: list[Task]) -> list[list[tuple[float, float]]]:
    """Return the positions at each instant."""
    [anchors] = page.evaluate(LAY_OUT, [{"past": _answer(past), "aspect": past["aspect"]}])
    places = dict(zip(past["ids"], _points(anchors), strict=True))
    area = sum((radius + 2) ** 2 for radius in past["radii"])
    asked = [{"instant": {**task, "area": area, "anchors": [places.get(one) for one in task["ids"]]}} for task in tasks]
    return [_points(one) for one in page.evaluate(LAY_OUT, asked)]


def _answer(past: Task) -> dict[str, dict[str, list[Any]]]:
    """Return the answer about all maps of a token: a saved page gives it to the worker."""
    number = len(past["ids"])
    nodes = {"address": past["ids"], "kind": ["top_holder"] * number, "time_node": [None] * number}
    nodes["share"] = [(radius / 120) ** 2 for radius in past["radii"]]
    ends = [[past["ids"][place] for place in side] for side in zip(*past["links"], strict=True)] or [[], []]
    return {"nodes": nodes, "links": {"one": ends[0], "other": ends[1], "time_node": [None] * len(ends[0])}}


def _points(flat: list[float]) -> list[tuple[float, float]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def overlaps(task: Task, points: list[tuple[float, float]]) -> list[tuple[str, str]]:
    bubbles = zip(task["ids"], task["radii"], points, strict=True)
    return [
        (one, other)
        for (one, radius, at), (other, other_radius, other_at) in itertools.combinations(bubbles, 2)
        if not math.dist(at, other_at) >= radius + other_radius
    ]


@pytest.mark.later(long=1)
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_no_bubbles_overlap_at_any_instant(page: Page, seed: int) -> None:
    past, tasks = tasks_of(seed, 50)
    for task, points in zip(tasks, laid_out(page, past, tasks), strict=True):
        assert overlaps(task, points) == []


@pytest.mark.long
def test_positions_do_not_depend_on_the_instants_before(page: Page) -> None:
    past, tasks = tasks_of(5, 8)
    forth, back = laid_out(page, past, tasks), laid_out(page, past, tasks[::-1])
    assert forth == back[::-1]
    assert laid_out(page, past, tasks[3:4]) == [forth[3]]


@pytest.mark.long
def test_bubbles_at_one_place_are_separated(page: Page) -> None:
    ids = [f"0x{number:040x}" for number in range(120)]
    same = {
        "ids": ids,
        "radii": [20.0 + each % 7 for each in range(120)],
        "aspect": 1.6,
        "links": [],
        "groups": [None] * 120,
    }
    task = {**same, "area": 1e9, "anchors": [[0.0, 0.0]] * 120}
    [points] = [_points(one) for one in page.evaluate(LAY_OUT, [{"instant": task}])]
    assert overlaps(task, points) == []


@pytest.mark.long
def test_order_of_the_holders_does_not_move_them(page: Page) -> None:
    past, [task] = tasks_of(7, 1)
    order = random.Random(7).sample(range(len(task["ids"])), len(task["ids"]))
    turned = {
        **task,
        "links": [],
        **{name: [task[name][each] for each in order] for name in ("ids", "radii", "groups")},
    }
    [first], [second] = laid_out(page, past, [{**task, "links": []}]), laid_out(page, past, [turned])
    assert [first[each] for each in order] == second
