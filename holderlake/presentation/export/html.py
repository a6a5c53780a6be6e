"""Make HTML pages from templates, without scripts and external resources. Every text is escaped.

Numbers, instants and names are formatted as in a report; None becomes a dash.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime
from decimal import ROUND_DOWN, Context, Decimal
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from holderlake.core.contract.figures import share_text
from holderlake.core.contract.text import printable

_POLICY: Final = "default-src 'none'; img-src data:; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'"
_NOTHING: Final = "\u2013"
_EXACT: Final = Context(prec=120)


def html_page(package: str, template: str, **values: Any) -> str:
    """Return the HTML of a package's template (``page.html``), with the style and its content security policy."""
    style = files("holderlake.presentation.export").joinpath("style.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        _environment(package)
        .get_template(template)
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


def percent(share: float | None) -> str:
    """Return a share of the supply (0 to 1) as a percentage."""
    return _NOTHING if share is None else share_text(share)


def points(share: float | None) -> str:
    """Return a change of a share (-1 to 1) in percentage points, with its sign."""
    return _NOTHING if share is None else f"{100 * share:+.2f}".replace("-", "\u2212")


def number(value: float | None, digits: int = 2) -> str:
    """Return a number with ``digits`` decimals; integers have no decimals."""
    if value is None:
        return _NOTHING
    return f"{value:,d}" if isinstance(value, int) else f"{value:,.{digits}f}".replace("-", "\u2212")


def amount(text: str | None) -> str:
    """Return a decimal text with at most six decimals if it is below 1, else at most two. It is not rounded."""
    if text is None:
        return _NOTHING
    value = Decimal(text)
    places = Decimal("0.000001") if abs(value) < 1 else Decimal("0.01")
    decimal_text = f"{value.quantize(places, rounding=ROUND_DOWN, context=_EXACT):,f}"
    return decimal_text.rstrip("0").rstrip(".") if "." in decimal_text else decimal_text


def instant(when: datetime | None) -> str:
    """Return a UTC instant as YYYY-MM-DD HH:MM."""
    return _NOTHING if when is None else f"{when:%Y-%m-%d %H:%M}"


def short(address: str | None) -> str:
    """Return the first eight and last six characters of an address."""
    if address is None:
        return _NOTHING
    return address if len(address) < 14 else f"{address[:8]}…{address[-6:]}"
