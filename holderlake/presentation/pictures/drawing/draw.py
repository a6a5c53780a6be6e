"""Draw a token's map as a picture: title and figures, the bubble map, lists and legend.

The same tables give the same bytes. ``scene`` selects the content, and ``layout`` computes positions; ``header``,
``bubbles`` and ``legend`` draw the parts.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from holderlake.presentation.pictures.drawing.bubbles import draw_bubbles
from holderlake.presentation.pictures.drawing.canvas import Canvas, Form, drawing
from holderlake.presentation.pictures.drawing.colours import COLOURS, Theme
from holderlake.presentation.pictures.drawing.header import (
    TokenTitle,
    draw_figures,
    draw_finding,
    draw_title,
    finding_lines,
    finding_of,
)
from holderlake.presentation.pictures.drawing.legend import draw_lists_and_legend
from holderlake.presentation.pictures.drawing.sheet import Sheet
from holderlake.presentation.pictures.layout.bubbles import place
from holderlake.presentation.pictures.layout.page import page_of
from holderlake.presentation.pictures.scene import scene_of

__all__ = ["Form", "Theme", "TokenTitle", "draw_map"]


def draw_map(tables: Mapping[str, pa.Table], token: TokenTitle, *, width: int, theme: Theme, form: Form) -> bytes:
    """Return the picture of a map as a PNG or SVG file.

    ``tables`` are the tables of the map by name, from ``engine.maps.maps.map_as_of``. ``width`` is in
    pixels, at least 400; the height depends on it. Thread-safe.
    """
    scene, colours = scene_of(tables), COLOURS[theme]
    sentence, notes = finding_of(tables, token.as_of)
    finding = f"{sentence} {notes}".strip() or "Holderlake"
    page = page_of(width)
    lines, size = finding_lines(finding, page)
    page = page_of(width, 1.3 * len(lines) * size / page.unit)
    layout = place(scene, page.frame, page.unit)
    with drawing():
        sheet = Sheet(Canvas(page.width, page.height, colours.page), page, colours, scene, layout)
        draw_title(sheet, token)
        draw_figures(sheet)
        draw_finding(sheet, finding, len(sentence.split()))
        draw_bubbles(sheet)
        draw_lists_and_legend(sheet)
        return sheet.canvas.encode(form, f"{token.shown_name[:80]}: map of holders")
