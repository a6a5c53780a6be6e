"""Make the film and the picture of the front page, ``docs/images/*.webp``, from the home of a demo.

Usage: ``python -m docs.reference.images [HOME]``, after ``make demo``; it needs Chromium.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import sync_playwright

from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.presentation.export.token_history import Period, token_history
from holderlake.presentation.pictures.drawing.draw import Theme, TokenTitle, draw_map

FOLDER: Final = Path(__file__).parents[1] / "images"
_EXPLORER_TOKEN: Final = ("eth", "KELP")
_MAP_TOKEN: Final = ("solana", "DRFT")
_FRAME_MILLISECONDS: Final = 900


def main(home: Path) -> None:
    """Write both pictures of the front page from the home of a demo."""
    FOLDER.mkdir(exist_ok=True)
    warehouse = Warehouse(home / "warehouse.duckdb")
    _save([_map(warehouse)], "map.webp")
    chain, token, _ = _token(warehouse, *_EXPLORER_TOKEN)
    dates = "SELECT timestamp FROM maps WHERE chain = ? AND token_address = ? ORDER BY timestamp"
    first_date, *later_dates = warehouse.query(dates, [chain, token])["timestamp"].to_pylist()
    view = f"?chain={chain}&token={token}&tab=clusters&cluster=1&at={first_date:%Y%m%dT%H%M%SZ}"
    _save(_explorer(home, view, len(later_dates)), "explorer.webp")


def _token(warehouse: Warehouse, chain: str, symbol: str) -> tuple[str, str, str]:
    """Return chain, address and name of a token of the sample world."""
    query = "SELECT token_address, name FROM latest_tokens WHERE chain = ? AND symbol = ?"
    (row,) = warehouse.query(query, [chain, symbol]).to_pylist()
    return chain, row["token_address"], row["name"]


def _map(warehouse: Warehouse) -> bytes:
    """Return the picture of a token's latest map."""
    chain, token, name = _token(warehouse, *_MAP_TOKEN)
    with token_history(warehouse, Period(chain, token, datetime.min, datetime.max)) as history:
        as_of = history.ask("token").to_pylist()[0]["last_map"]
        tables = history.map_at(as_of)
    title = TokenTitle(name, _MAP_TOKEN[1], chain, as_of)
    return draw_map(tables, title, width=1200, theme=Theme.LIGHT, form="png")


def _explorer(home: Path, query: str, steps: int) -> list[bytes]:
    """Return screenshots of the explorer page with this query string: at its date, and at ``steps`` later dates."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with _explore(home) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 760}, reduced_motion="reduce")
        page.goto(address + query)
        page.wait_for_function("() => document.getElementById('map')?.bubbles?.().length > 0")
        pictures = []
        for step in range(steps + 1):
            if step:
                page.get_by_role("button", name="Next date").click()
                page.mouse.move(0, 0)
            page.wait_for_timeout(2_000)  # until the map has settled
            pictures.append(page.screenshot())
        browser.close()
    return pictures


@contextmanager
def _explore(home: Path) -> Iterator[str]:
    """Run ``holderlake explore`` on a home, and yield its address."""
    command = [sys.executable, "-m", "holderlake.cli.main", "explore", "--port", "0"]
    environment = os.environ | {"HOLDERLAKE_HOME": str(home)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        found = re.search(r"http://\S+", process.stderr.readline() if process.stderr else "")
        if found is None:
            raise RuntimeError("the explorer did not start")
        try:
            yield found[0]
        finally:
            process.terminate()


def _save(pictures: list[bytes], name: str) -> None:
    """Save a picture, or several as a film that begins again after its last one."""
    first_frame, *frames = (Image.open(io.BytesIO(picture)).convert("RGB") for picture in pictures)
    milliseconds = [_FRAME_MILLISECONDS] * len(frames) + [3 * _FRAME_MILLISECONDS]
    film = {"save_all": True, "append_images": frames, "duration": milliseconds, "loop": 0} if frames else {}
    first_frame.save(FOLDER / name, "WEBP", quality=82, method=6, **film)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "data"))
