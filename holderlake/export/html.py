"""Make HTML pages from templates, without scripts and external resources. Every text is escaped."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from holderlake.contract.text import printable
from holderlake.export.text_format import amount, instant, number, percent, points, short

_POLICY: Final = "default-src 'none'; img-src data:; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'"


def html_page(package: str, **values: Any) -> str:
    """Return the HTML of the template ``page.html`` of a package, with the style and its content security policy."""
    style = files("holderlake.export").joinpath("style.css").read_text()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        _environment(package)
        .get_template("page.html")
        .render(
            style=Markup(style),  # noqa: S704 - our own file, without foreign text
            policy=_POLICY.format(digest),
            **values,
        )
    )


def _plain_text(value: Any) -> Any:
    """Return a text with unprintable characters as escapes. Other values (``Markup``) are returned unchanged."""
    return printable(value, exempt="\n\t\u00a0") if type(value) is str else value


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package, "."), autoescape=True, undefined=StrictUndefined, finalize=_plain_text
    )
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.filters |= {
        "percent": percent,
        "points": points,
        "number": number,
        "amount": amount,
        "instant": instant,
        "short": short,
    }
    return environment
