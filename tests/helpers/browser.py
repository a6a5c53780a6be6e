"""Chromium, in which tests open pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tests.helpers.real import missing

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_TIMEOUT: Final = 600_000
"""Milliseconds until Chromium's start or an expectation fails."""
PHONE: Final[dict[str, Any]] = {
    "viewport": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
    "device_scale_factor": 2,
}
"""Options of a browser context that imitates a phone."""


def chromium() -> str:
    """Return the path of Chromium. Without it, skip the test, or fail it if real parts are required."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    return found or missing("Chromium is not installed; on Debian: apt-get install chromium")


def expect(subject: Any) -> Any:
    """Return Playwright's expectations of a page or a part of it. Most processes of tests need no Playwright."""
    from playwright.sync_api import expect

    return expect(subject)


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """Start Chromium without a window."""
    from playwright.sync_api import expect, sync_playwright

    arguments = ["--disable-gpu"]  # otherwise Chromium emulates a GPU
    arguments += [] if os.geteuid() else ["--no-sandbox"]  # Chromium has no sandbox for root
    with sync_playwright() as playwright:
        expect.set_options(timeout=_TIMEOUT)  # five seconds are too short on a busy machine
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments, timeout=_TIMEOUT)
        yield browser
        browser.close()
