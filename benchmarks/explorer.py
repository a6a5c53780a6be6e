"""Frames a second and script a frame of the explorer, with 500 holders and 5,000 links, compared with an empty page.

    python -m benchmarks.explorer [--seconds 4]

Real Chromium (Debian's package) without a screen draws both in turns; no page can have more frames than the empty one.
Script is the CPU time of the page's JavaScript, the mean of all frames; other programs do not change it.
Also the seconds until the first view is there, of that map and of one of 35 holders.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, CDPSession, Page

from tests.browser import opened_browser
from tests.explorer.serving import exploring
from tests.explorer.world import CROWD, TIDE, fill

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


def main() -> None:
    """Measure both pages and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=4.0)
    milliseconds = parser.parse_args().seconds * 1000
    with tempfile.TemporaryDirectory() as folder, opened_browser() as browser:
        fill(Path(folder))
        with exploring(Path(folder)) as address:
            print("First view, seconds:")
            for name, token in (("35 holders", TIDE), ("500 holders, 5,000 links", CROWD)):
                seconds = min(first_view(browser, f"{address}/?chain=eth&token={token}") for _ in range(3))
                print(f"  {name:<26}{seconds:6.2f}")
            print("Frames a second (and the 95th percentile of milliseconds between two), and script:")
            for name in ("moving the map", "playing the history"):
                ours, gap, script = smoothness(browser, f"{address}/?chain=eth&token={CROWD}", name, milliseconds)
                bare, bare_gap, _ = smoothness(browser, "about:blank", "", milliseconds)
                said = f"{ours:5.1f} ({gap:.0f}) of {bare:5.1f} ({bare_gap:.0f}) of an empty page"
                print(f"  {name:<26}{said}, ratio {ours / bare:.2f}; script {script:.1f} ms a frame")


def first_view(browser: Browser, url: str) -> float:
    """Return the seconds from the request to a drawn map, with an empty cache."""
    page = opened(browser)
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
