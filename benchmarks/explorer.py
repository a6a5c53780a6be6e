"""Speed of the explorer's page with 500 holders and 5,000 links: first view, dragging, playing, memory.

    python -m benchmarks.explorer [--seconds 4] [--minutes 30]

``--minutes`` only plays the history again and again, at 10 dates a second, and prints the memory.

Real Chromium (Debian's package) without a screen. There is no GPU, so frames a second are compared with those of an
empty page, and the work of a frame comes from Chromium's trace: script, style and paint of the main thread.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from playwright.sync_api import Browser, CDPSession, Page

from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from tests.helpers.browser import opened_browser
from tests.helpers.lakes import rows, write
from tests.presentation.explorer.serving import exploring
from tests.presentation.explorer.world import CROWD, INSTANTS, TIDE, crowd_map, fill

DRAWN = ".map[data-at][aria-busy=false]"
COUNT = """
(milliseconds) => new Promise((done) => {
    const began = performance.now();
    const gaps = [];
    let last = began;
    const frame = (now) => {
        if (now > last) gaps.push(now - last);
        last = Math.max(last, now);
        if (now - began < milliseconds) return requestAnimationFrame(frame);
        gaps.sort((one, two) => one - two);
        done([gaps.length * 1000 / (now - began), gaps[Math.floor(gaps.length * 0.95)]]);
    };
    requestAnimationFrame(frame);
})
"""
MOVE = """
(milliseconds) => {
    const map = document.getElementById("map");
    const began = performance.now();
    const { left, top, width, height } = map.getBoundingClientRect();
    const [x, y] = [left + width / 2, top + height / 2];
    const common = { bubbles: true, cancelable: true, view: window, button: 0 };
    const send = (to, kind, x, y) => to.dispatchEvent(new MouseEvent(kind, { ...common, clientX: x, clientY: y }));
    send(map, "mousedown", x, y);
    const step = () => {
        const passed = performance.now() - began;
        send(window, "mousemove", x + 200 * Math.sin(passed / 300), y + 120 * Math.cos(passed / 300));
        if (passed < milliseconds) requestAnimationFrame(step);
        else send(window, "mouseup", x, y);
    };
    requestAnimationFrame(step);
}
"""


PLAYED = """
(milliseconds) => new Promise((done) => {
    const map = document.querySelector(".map");
    const slider = document.getElementById("slider");
    const shown = [];
    const place = () => Number(/, (\\d+) of/.exec(slider.getAttribute("aria-valuetext"))[1]);
    const note = () => shown.push([performance.now(), place()]);
    new MutationObserver(note).observe(map, { attributeFilter: ["data-at"] });
    const end = () => {
        const seconds = (shown.at(-1)[0] - shown[0][0]) / 1000;
        done([(shown.at(-1)[1] - shown[0][1]) / seconds, (shown.length - 1) / seconds]);
    };
    setTimeout(end, milliseconds);
})
"""
WORK = (
    "FireAnimationFrame",
    "EventDispatch",
    "TimerFire",
    "UpdateLayoutTree",
    "Layout",
    "PrePaint",
    "Paint",
    "Layerize",
)
"""Events of Chromium's trace that are script, style, layout and paint of the page's main thread."""
DATES = 60
VIEWS = 7
SETTLED_MILLISECONDS = 2_500
"""A new window of Chromium loads the browser's own pages first, which would compete with ours."""


def main() -> None:
    """Measure the page and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--minutes", type=float, default=0.0)
    options = parser.parse_args()
    milliseconds = options.seconds * 1000
    with tempfile.TemporaryDirectory() as folder, opened_browser() as browser:
        long_history(Path(folder))
        with exploring(Path(folder)) as address:
            crowd = f"{address}/?chain=eth&token={CROWD}"
            if options.minutes:
                long_play(browser, f"{crowd}&at=20260101T000000Z", options.minutes)
                return
            print(f"First view, seconds, and with a fourth of the CPU; median (shortest to longest) of {VIEWS}:")
            for name, url in (
                ("35 holders", f"{address}/?chain=eth&token={TIDE}"),
                ("500 holders, 5,000 links", crowd),
            ):
                print(f"  {name:<26}", *(first_views(browser, url, slower) for slower in (1, 4)), sep="   ")
            print("Script, style and paint, milliseconds a frame, while the map is dragged:")
            for lines in ("strongest links", "all links"):
                url = crowd + ("&all=" if lines == "all links" else "")
                fast, slow = (work_a_frame(browser, url, milliseconds, slower) for slower in (1, 4))
                print(f"  {lines:<26}{fast:6.1f}{slow:8.1f}")
            print("Frames a second (and the 95th percentile of milliseconds between two), and script:")
            for name in ("moving the map", "playing the history"):
                ours, gap, script = smoothness(browser, crowd, name, milliseconds)
                bare, bare_gap, _ = smoothness(browser, "about:blank", "", milliseconds)
                said = f"{ours:5.1f} ({gap:.0f}) of {bare:5.1f} ({bare_gap:.0f}) of an empty page"
                print(f"  {name:<26}{said}, ratio {ours / bare:.2f}; script {script:.1f} ms a frame")
            print(
                "Dates and maps a second in a play, and megabytes of JavaScript's heap after one play and after three:"
            )
            for speed in (10, 30):
                played, drawn, first, last = play(browser, f"{crowd}&at=20260101T000000Z", speed, milliseconds)
                print(f"  {speed}/s {played:6.1f} {drawn:6.1f} {first:8.0f} {last:5.0f}")


def long_history(home: Path) -> None:
    """Fill a home whose largest token has ``DATES`` maps more."""
    fill(home)
    lake = Lake(home / "lake")
    for number in range(DATES):
        instant = INSTANTS[0] + timedelta(days=1, hours=number)
        of_token = {"token_address": CROWD}
        made = {name: [of_token | row for row in listed] for name, listed in crowd_map(number % 6).items()}
        tables = {name: rows(name, "eth", instant, listed) for name, listed in made.items()}
        write(lake, "maps", "eth", instant, tables, {CROWD})
    Warehouse(home / "warehouse.duckdb").load(lake)


def work_a_frame(browser: Browser, url: str, milliseconds: float, slower: int) -> float:
    """Return the milliseconds of script, style and paint for each frame of a dragged map, from Chromium's trace."""
    page = opened(browser)
    page.goto(url)
    page.wait_for_selector(DRAWN)
    page.wait_for_timeout(1_500)
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slower})
    browser.start_tracing(page=page, categories=["devtools.timeline", "disabled-by-default-devtools.timeline"])
    page.evaluate(MOVE, milliseconds)
    frames, _ = page.evaluate(COUNT, milliseconds)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    page.context.close()
    spent = sum(event.get("tdur", event.get("dur", 0)) for event in events if event["name"] in WORK)
    return float(spent) / 1_000 / (frames * milliseconds / 1_000)


def long_play(browser: Browser, url: str, minutes: float) -> None:
    """Play the history again and again, and print the megabytes of the page's heap and of Chromium's renderers."""
    page = opened(browser)
    page.goto(url)
    page.wait_for_selector(DRAWN)
    page.get_by_label("Dates a second").select_option("10")
    chromium = page.context.new_cdp_session(page)
    began = time.monotonic()
    print("Minutes of play, plays, and megabytes of JavaScript's heap and of all renderers (resident):")
    printed, plays = -1.0, 0
    while (passed := (time.monotonic() - began) / 60) < minutes or printed < 0:
        if passed >= printed + minutes / 10:
            printed = passed
            chromium.send("HeapProfiler.collectGarbage")
            heap = chromium.send("Runtime.getHeapUsage")["usedSize"] / 1e6
            print(f"  {passed:5.1f} {plays:5} {heap:8.0f} {renderers_megabytes():6.0f}", flush=True)
        page.get_by_role("button", name="Play the history").click()
        page.wait_for_selector(".play[aria-label='Play the history']", timeout=120_000)
        plays += 1
    page.context.close()


def renderers_megabytes() -> float:
    """Return the resident memory of all of Chromium's renderer processes."""
    pages = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"--type=renderer" in (process / "cmdline").read_bytes():
                pages += int((process / "statm").read_text().split()[1])
        except OSError:  # it has ended
            continue
    return pages * resource.getpagesize() / 1e6


def play(browser: Browser, url: str, speed: int, milliseconds: float) -> tuple[float, float, float, float]:
    """Return dates a second, maps drawn a second, and the megabytes of the heap after one play and after three."""
    page = opened(browser)
    page.goto(url)
    page.wait_for_selector(DRAWN)
    page.get_by_label("Dates a second").select_option(str(speed))
    chromium = page.context.new_cdp_session(page)
    megabytes = []
    for number in range(3):
        page.get_by_role("button", name="Play the history").click()
        if number == 1:
            page.evaluate("() => new Promise((done) => setTimeout(done, 300))")
        dates, drawn = page.evaluate(PLAYED, milliseconds)
        page.wait_for_selector(".play[aria-label='Play the history']", timeout=120_000)
        chromium.send("HeapProfiler.collectGarbage")
        megabytes.append(chromium.send("Runtime.getHeapUsage")["usedSize"] / 1e6)
        page.get_by_role("slider", name="Date").press("Home")
        page.wait_for_selector(".map[data-at^='20260101']")
    page.context.close()
    return dates, drawn, megabytes[0], megabytes[-1]


def first_views(browser: Browser, url: str, slower: int) -> str:
    """Return the median of the seconds of first views, with the shortest and the longest."""
    shortest, *views, longest = sorted(first_view(browser, url, slower) for _ in range(VIEWS))
    return f"{statistics.median(views):.2f} ({shortest:.2f} to {longest:.2f})"


def first_view(browser: Browser, url: str, slower: int) -> float:
    """Return the seconds from the request to a drawn map, with an empty cache, on a CPU that is slower by a factor."""
    page = opened(browser)
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slower})
    page.wait_for_timeout(SETTLED_MILLISECONDS)
    began = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.wait_for_selector(DRAWN)
    seconds = time.perf_counter() - began
    page.context.close()
    return seconds


def smoothness(browser: Browser, url: str, what: str, milliseconds: float) -> tuple[float, float, float]:
    """Return the frames per second, the 95th percentile of milliseconds between two, and those of script for each."""
    page = opened(browser)
    page.goto(f"{url}&at=20260101T000000Z" if what == "playing the history" else url)
    if what:
        page.wait_for_selector(DRAWN)
        page.wait_for_timeout(1_500)
    chromium = page.context.new_cdp_session(page)
    chromium.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
    chromium.send("Performance.enable")
    before = script_seconds(chromium)
    if what == "moving the map":
        page.evaluate(MOVE, milliseconds)
    elif what:
        page.get_by_role("button", name="Play the history").click()
    frames, gap = page.evaluate(COUNT, milliseconds)
    script = (script_seconds(chromium) - before) * 1000 / (frames * milliseconds / 1000)
    page.context.close()
    return frames, gap, script


def script_seconds(chromium: CDPSession) -> float:
    """Return the CPU seconds of the page's JavaScript since its start."""
    metrics = {one["name"]: one["value"] for one in chromium.send("Performance.getMetrics")["metrics"]}
    return float(metrics["ScriptDuration"])


def opened(browser: Browser) -> Page:
    return browser.new_context(viewport={"width": 1_440, "height": 900}).new_page()


if __name__ == "__main__":
    main()
