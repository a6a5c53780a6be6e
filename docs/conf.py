"""The docs as a site: ``make docs`` builds it into ``site/``, and fails on a link that leads nowhere.

The pages are plain Markdown, which is readable in a checkout too; this file has only the settings of the site. The site
loads nothing from other hosts: fonts are the reader's own, and the search is a file of the site.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

project = "Holderlake"
extensions = ["myst_parser"]
myst_heading_anchors = 3
html_theme = "furo"
html_favicon = "_static/icon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("_static") / "scorer.js")
html_title = "Holderlake"
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"

_NAVIGATION: Final = {
    "index": {
        "Start": ["install", "quickstart", "own-transfers", "faq"],
        "Ask": ["questions", "connect", "iceberg", "explorer", "assistants", "entities", "reports", "alerts"],
        "Fill": ["backfills", "sources", "formats"],
        "Run": ["running", "troubleshooting", "dagster", "upkeep", "service", "cluster", "performance"],
        "Look up": ["tables", "sql", "python", "commands", "settings", "engine", "figures", "contract", "glossary"],
        "Change it": ["design", "decisions"],
    },
    "tables": {"": ["tables/*"]},
    "sql": {"": ["sql/*"]},
    "decisions": {"": ["decisions/*"]},
}
"""The pages below a page, by heading. A page that is nowhere here fails the build."""


def _add_navigation(app: Sphinx, page: str, source: list[str]) -> None:
    for caption, below in _NAVIGATION.get(page, {}).items():
        options = [":hidden:", ":glob:", *([f":caption: {caption}"] if caption else [])]
        source[0] += "\n".join(["", "```{toctree}", *options, "", *below, "```", ""])


class _Search(SearchEnglish):
    """English, where nakamoto finds nakamoto_coefficient."""

    def split(self, input: str) -> list[str]:
        words = super().split(input)
        return [*words, *(part for word in words if "_" in word for part in word.split("_") if part)]


def _write_texts(app: Sphinx, error: Exception | None) -> None:
    """Write the texts of all pages as a script, from which the search of a site that is opened as files reads."""
    if error is None:
        texts = {f"{name}.html": app.env.get_doctree(name).astext() for name in sorted(app.env.found_docs)}
        script = Path(app.outdir, "_static", "page_texts.js")
        script.write_text(f"globalThis.pageTexts = {json.dumps(texts)};\n", "utf-8")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_navigation)
    app.connect("build-finished", _write_texts)
    app.add_search_language(_Search)
